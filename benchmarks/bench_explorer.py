"""How long is it from a slider's move to the new answer on the page, drawn?

    python benchmarks/bench_explorer.py [--moves 60]

Starts `specworth serve` on a free loopback port and opens the explorer in Chromium with the example prompts (28) and
with 500 prompts, Llama-3.1-8B on an H200, every method compared. Then a slider moves by one step, and by another when
the answer is there: time from the input event to the frame after which the charts are drawn, and of it the service's
part (the request alone). One line of JSON: p50 and p95 in ms, seconds to the first paint, and bytes that the page
loads. The browser, the service and this script share the machine. Targets: a move under 150 ms, first paint under 1 s,
300 kB at most.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

from bench_service import serving
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.chromium import launched  # noqa: E402  # a script's folder is on the path, the checkout is not

MOVE = """async ([id, moves]) => {
  const range = document.getElementById(id);
  performance.setResourceTimingBufferSize(10000);
  const verdict = document.getElementById("figures");
  const drawn = [];
  for (let i = 0; i < moves; i += 1) {
    const changed = new Promise((done) => new MutationObserver((_, observer) => {
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(done));  // after the frame in which all of it is drawn
    }).observe(verdict, { childList: true }));
    const start = performance.now();
    range.value = String(Number(range.value) + (Math.floor(i / Number(range.max)) % 2 === 0 ? 1 : -1));
    range.dispatchEvent(new Event("input"));
    await changed;
    drawn.push(performance.now() - start);
  }
  const requests = performance.getEntriesByType("resource").filter((one) => one.name.endsWith("/v1/explorations"));
  return [drawn, requests.slice(-moves).map((one) => one.duration)];
}"""
LOADED = """() => {
  const files = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  return [files.filter((one) => !one.name.includes("/v1/")).reduce((sum, one) => sum + one.decodedBodySize, 0),
          paint.startTime / 1000];
}"""


def many_prompts(count: int) -> bytes:
    """As many prompts, all different: the example's in turn, numbered."""
    rows = [json.loads(row) for row in (ROOT / "data" / "example_prompts.jsonl").read_text("utf-8").splitlines()]
    lines = []
    for i in range(count):
        row = json.loads(json.dumps(rows[i % len(rows)]))
        row["messages"][-1]["content"] += f"\n\nCase {i}."
        lines.append(json.dumps(row))
    return "\n".join(lines).encode()


def figures(times: list[float]) -> dict[str, float]:
    """p50 and p95 of milliseconds."""
    ordered = sorted(times)
    return {"p50_ms": round(statistics.median(ordered), 1), "p95_ms": round(ordered[int(0.95 * (len(ordered) - 1))], 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moves", type=int, default=60)
    moves = parser.parse_args().moves
    result: dict[str, object] = {"benchmark": "explorer", "moves": moves, "cores": os.cpu_count()}
    with tempfile.TemporaryDirectory() as folder, serving(folder) as (port, _), launched() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"http://127.0.0.1:{port}/")
        expect(page.locator("#models option").first).to_be_attached()
        result["page_bytes"], first_paint_s = page.evaluate(LOADED)
        result["first_paint_s"] = round(first_paint_s, 3)
        for name, content in (("prompts_28", None), ("prompts_500", many_prompts(500))):
            if content is None:
                page.get_by_role("button", name="Show it with an example").click()
            else:
                page.locator("#file").set_input_files({"name": "p.jsonl", "mimeType": "", "buffer": content})
                expect(page.locator("#prompts-read")).to_contain_text("500 prompts", timeout=30_000)
            expect(page.locator("#results")).to_be_visible(timeout=30_000)
            expect(page.locator("#answer")).to_have_attribute("aria-busy", "false", timeout=30_000)
            page.evaluate(MOVE, ["slider-temperature", 5])  # warm
            told: dict[str, object] = {}
            for slider in ("concurrency", "input", "output", "temperature", "k"):
                drawn, asked = page.evaluate(MOVE, [f"slider-{slider}", moves // 5])
                told[slider] = figures(drawn) | {"request_p50_ms": figures(asked)["p50_ms"]}
            result[name] = told
    result["targets"] = {"move_ms": 150, "first_paint_s": 1.0, "page_bytes": 300_000}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
