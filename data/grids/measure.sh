#!/bin/sh
# Measure the grids on a GPU host that has vLLM and its own dependencies but not this project installed.
#
#   measure.sh CHECKOUT OUT SECONDS      repeat-1 first (30 cells, for the noise floor), then cost-2, SECONDS in all
#
# Start it with `setsid nohup sh measure.sh ... &` where a login may end before it does: one process for all engines
# imports vLLM once a grid, and rows are whole lines in OUT/*/rows.jsonl at any time. Afterwards, in the project:
#   python -m profiler.measurements OUT/repeat OUT/cost --into data/measurements && specworth data check
set -eu
checkout=$1 out=$2 seconds=$3
began=$(date +%s)
left() { echo $((seconds - $(date +%s) + began)); }
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 PYTHONUNBUFFERED=1 PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$checkout"
cd "$checkout"
repeats=$((seconds / 4))
python3 -m profiler.sweep data/grids/repeat-1.yaml --out "$out/repeat" --work "$out/work" --cycles 2 --time-limit "$repeats"
python3 -m profiler.sweep data/grids/cost-2.yaml --out "$out/cost" --work "$out/work" --cycles 2 --time-limit "$(left)" \
  --done data/measurements/cost_cells.csv
echo "through after $(($(date +%s) - began)) s"
