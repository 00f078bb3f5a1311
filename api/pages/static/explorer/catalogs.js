// The names that can be chosen: fetched once, searched by the browser as one types.

import { byId, el } from "../elements.js";
import { ask } from "../fetching.js";
import { gib, methodName } from "../formatting.js";

const METHODS = ["ngram", "suffix", "draft_model", "eagle", "eagle3", "mtp", "medusa"];
const billions = (model) => `${(model.parameters / 1e9).toFixed(1)}B`;

/** What stands for a method alone in the field of the drafter. */
export const drafters = { methods: new Map(METHODS.map((method) => [methodName(method), method])) };

const option = (value, label) => el("option", { value, label });

/** Fill the lists; throws Problem where the catalogs cannot be had. */
export async function fillCatalogs() {
  const [{ models }, { gpus }] = await Promise.all([ask("GET", "/v1/catalog/models"), ask("GET", "/v1/catalog/gpus")]);
  const targets = models.filter((model) => model.kind === "model");
  byId("models").replaceChildren(...targets.map((model) => option(model.name, `${billions(model)}, ${gib(model.weight_bytes)}`)));
  byId("gpus").replaceChildren(...gpus.map((gpu) =>
    option(gpu.name, `${gib(gpu.memory_bytes)}, ${(gpu.bandwidth_bytes_per_s / 1e12).toFixed(2)} TB/s`)));
  const heads = models.filter((model) => model.kind === "head");
  byId("drafters").replaceChildren(
    ...[...drafters.methods.keys()].map((name) => option(name, "method")),
    ...heads.map((head) => option(head.name, `${methodName(head.method)}, for ${head.targets.map((t) => t.split("/").pop()).join(", ")}`)),
    ...targets.filter((model) => model.parameters < 4e9).map((model) => option(model.name, `draft model, ${billions(model)}`)),
  );
}
