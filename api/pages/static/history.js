// /history: what was answered and measured before, and what is being measured now. What is shown stands in the address.

import { byId } from "./elements.js";
import { ask } from "./fetching.js";
import { setUpDialogs } from "./history/dialogs.js";
import { setUpJobs } from "./history/jobs.js";
import { setUpProfiles } from "./history/profiles.js";
import { setUpRecommendations } from "./history/recommendations.js";

const VIEWS = ["recommendations", "profiles", "jobs"];
const address = new URL(location.href);

/** Put names and values into the address; null takes one out. */
function keepInAddress(changes) {
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") address.searchParams.delete(name);
    else address.searchParams.set(name, value);
  }
  history.replaceState(null, "", address);
}

function onNothingKept() {
  byId("kept").hidden = true;
  byId("nothing-kept").hidden = false;
}

/** A form of filters whose fields stand in the address while its view is shown. */
function filterOf(name, apply) {
  const form = byId(`${name}-filter`);
  const fields = [...form.elements].filter((field) => field.name);
  const values = () => Object.fromEntries(fields.map((field) => [field.name, field.value]));
  const applied = () => {
    const { from = "", until = "" } = values();
    const field = form.elements.until;
    field?.setCustomValidity(from && until && from > until ? "The time ends before it begins" : "");
    if (!form.reportValidity()) return;
    keepInAddress(values());
    apply();
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    applied();
  });
  form.addEventListener("change", applied);
  form.addEventListener("reset", () => setTimeout(applied)); // once the fields are as they were
  return {
    values,
    /** Set some fields, and the address. */
    set(given) {
      for (const field of fields) if (field.name in given) field.value = given[field.name];
      keepInAddress(values());
    },
    fill() {
      for (const field of fields) field.value = address.searchParams.get(field.name) ?? field.defaultValue ?? "";
    },
    /** The address tells of this view's fields alone. */
    leave() {
      keepInAddress(Object.fromEntries(fields.map((field) => [field.name, null])));
    },
    enter: () => keepInAddress(values()),
  };
}

const filters = Object.fromEntries(VIEWS.map((name) => [name, filterOf(name, () => views[name].listing.reload())]));
const given = (name) => ({ filter: filters[name], onNothingKept, keepInAddress });
const views = {
  recommendations: setUpRecommendations(given("recommendations")),
  profiles: setUpProfiles(given("profiles")),
  jobs: setUpJobs(given("jobs")),
};
let now = null;

function show(name) {
  if (now === name) return;
  if (now !== null) {
    views[now].hide?.();
    filters[now].leave();
  }
  now = name;
  keepInAddress({ view: name === VIEWS[0] ? null : name });
  filters[name].enter();
  for (const each of VIEWS) {
    const tab = byId(`${each}-tab`);
    tab.setAttribute("aria-selected", String(each === name));
    tab.tabIndex = each === name ? 0 : -1;
    byId(each).hidden = each !== name;
  }
  views[name].show?.();
  views[name].listing.reload();
}

function setUpTabs() {
  for (const [i, name] of VIEWS.entries()) {
    const tab = byId(`${name}-tab`);
    tab.addEventListener("click", () => show(name));
    tab.addEventListener("keydown", ({ key }) => {
      const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: VIEWS.length - 1 }[key];
      if (to === undefined) return;
      const next = VIEWS[(to + VIEWS.length) % VIEWS.length];
      show(next);
      byId(`${next}-tab`).focus();
    });
  }
}

/** Names to choose from in the filters by target: those of the catalog; without them a name is typed as it is. */
async function listTargets() {
  try {
    const { models } = await ask("GET", "/v1/catalog/models");
    byId("targets").replaceChildren(
      ...models.filter((model) => model.kind === "model").map((model) => new Option("", model.name)),
    );
  } catch {
    // the lists say what is wrong
  }
}

setUpDialogs();
setUpTabs();
const wanted = new URLSearchParams(address.search);
const first = VIEWS.includes(wanted.get("view")) ? wanted.get("view") : VIEWS[0];
filters[first].fill();
show(first);
if (wanted.get("recommendation")) views.recommendations.view(wanted.get("recommendation"));
else if (wanted.get("compare")?.includes(",")) views.recommendations.compare(...wanted.get("compare").split(",", 2));
else if (wanted.get("profile")) views.profiles.view(wanted.get("profile"));
else if (wanted.get("job")) views.jobs.view(wanted.get("job"));
document.addEventListener("keychange", () => views[now].listing.reload());
document.addEventListener("focusin", function once({ target }) {
  if (target.getAttribute("list") !== "targets") return;
  document.removeEventListener("focusin", once);
  listTargets();
});
