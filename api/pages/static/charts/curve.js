// The speedup over concurrency: its interval as a band, the threshold, the crossover, and where one is.

import { svg } from "../elements.js";
import { count, times } from "../formatting.js";
import { Tip, drawing, linear, logarithmic, ticks } from "./frame.js";

const HEIGHT = 260;
const MARGIN = { top: 18, right: 16, bottom: 40, left: 46 };

/**
 * points: [{ concurrency, value, low, high }], rising. minimum: the threshold. here: the asked concurrency.
 * crossover: up to how many at once it pays without a gap, null where there is none to show.
 */
export function drawCurve(place, { points, minimum, here, crossover, caption }, width) {
  const last = points[points.length - 1].concurrency;
  const top = Math.max(minimum * 1.1, ...points.map((p) => p.high));
  const bottom = Math.min(minimum * 0.9, 0.95, ...points.map((p) => p.low));
  const x = logarithmic([1, Math.max(2, last)], [MARGIN.left, width - MARGIN.right]);
  const y = linear([Math.max(0, bottom - 0.05), top + 0.05], [HEIGHT - MARGIN.bottom, MARGIN.top]);
  const path = (values) => values.map(([c, v], i) => `${i === 0 ? "M" : "L"}${x(c).toFixed(1)},${y(v).toFixed(1)}`).join("");
  const image = drawing(width, HEIGHT, `Speedup over concurrency. ${caption}`);

  for (const tick of ticks(Math.max(0, bottom - 0.05), top + 0.05, 5)) {
    image.append(
      svg("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }),
      svg("text", { x: MARGIN.left - 6, y: y(tick) + 4, "text-anchor": "end" }, `${tick}x`),
    );
  }
  const room = Math.max(1, Math.ceil((Math.log2(Math.max(2, last)) * 34) / (width - MARGIN.left - MARGIN.right)));
  for (let power = 0; 2 ** power <= last; power += room) {
    image.append(
      svg("text", { x: x(2 ** power), y: HEIGHT - MARGIN.bottom + 17, "text-anchor": "middle" }, String(2 ** power)),
    );
  }
  const floor = HEIGHT - MARGIN.bottom;
  image.append(
    svg("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: floor, y2: floor }),
    svg("text", { x: (MARGIN.left + width - MARGIN.right) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "requests at once"),
    svg("path", {
      class: "band",
      d: `${path(points.map((p) => [p.concurrency, p.high]))}${path(points.map((p) => [p.concurrency, p.low]).reverse()).replace("M", "L")}Z`,
    }),
    svg("line", { class: "threshold", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(minimum), y2: y(minimum) }),
    svg("path", { class: "line", d: path(points.map((p) => [p.concurrency, p.value])) }),
  );
  for (const p of points) image.append(svg("circle", { class: "dot", cx: x(p.concurrency), cy: y(p.value), r: 3 }));
  image.append(
    svg("text", { class: "strong halo", x: width - MARGIN.right, y: y(minimum) - 6, "text-anchor": "end" },
      `worth it from ${minimum}x`),
  );
  if (crossover !== null && crossover >= 1 && crossover <= last) {
    const at = x(crossover);
    const toLeft = at > width / 2;
    image.append(
      svg("line", { class: "crossover", x1: at, x2: at, y1: MARGIN.top, y2: floor }),
      svg("text", { class: "strong halo", x: at + (toLeft ? -6 : 6), y: MARGIN.top + 8, "text-anchor": toLeft ? "end" : "start" },
        `pays up to ${count(crossover)}`),
    );
  }
  const asked = points.find((p) => p.concurrency === here);
  if (asked !== undefined) {
    const toLeft = x(here) > width - 110;
    image.append(
      svg("circle", { class: "here", cx: x(here), cy: y(asked.value), r: 6 }),
      svg("text", { class: "strong halo", x: x(here) + (toLeft ? -11 : 11), y: y(asked.value) - 9, "text-anchor": toLeft ? "end" : "start" },
        `you: ${times(asked.value)}`),
    );
  }

  place.replaceChildren(image);
  const tip = new Tip(place);
  const guide = svg("line", { class: "guide", y1: MARGIN.top, y2: floor, visibility: "hidden" });
  image.append(guide);
  const told = (p) => `${count(p.concurrency)} at once: ${times(p.value)} (${p.low.toFixed(2)} to ${p.high.toFixed(2)})`;
  image.addEventListener("pointermove", (event) => {
    const left = event.clientX - image.getBoundingClientRect().left;
    const near = points.reduce((a, b) => (Math.abs(x(b.concurrency) - left) < Math.abs(x(a.concurrency) - left) ? b : a));
    for (const end of ["x1", "x2"]) guide.setAttribute(end, x(near.concurrency));
    guide.setAttribute("visibility", "visible");
    tip.show(told(near), x(near.concurrency), y(near.value));
  });
  image.addEventListener("pointerleave", () => {
    guide.setAttribute("visibility", "hidden");
    tip.hide();
  });
  return {
    caption,
    header: ["requests at once", "speedup", "90% interval"],
    rows: points.map((p) => [count(p.concurrency), times(p.value), `${p.low.toFixed(2)} to ${p.high.toFixed(2)}`]),
  };
}
