#!/bin/sh
# Measure the grids on a GPU host that has vLLM and its own dependencies but not this project installed.
#
#   measure.sh CHECKOUT OUT SECONDS             cost-3 alone: what is missing, in the order of what it tells
#   measure.sh CHECKOUT OUT SECONDS MODELS      the real pair first (at most 900 s of it), then cost-3 with what is left
#
# MODELS holds target-1.5b and draft-0.5b, see real-pair-1.yaml. Start it with `setsid nohup sh measure.sh ... &` where a
# login may end before it does: one process for all engines imports vLLM once a grid, and rows are whole lines in
# OUT/*/*.jsonl at any time. The same command again goes on where it stopped. Afterwards, in the project:
#   python -m profiler.measurements OUT/real OUT/cost --into data/measurements && specworth data check
set -eu
checkout=$1 out=$2 seconds=$3 models=${4:-}
began=$(date +%s)
left() { echo $((seconds - $(date +%s) + began)); }
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 PYTHONUNBUFFERED=1 PYTHONPATH="${PYTHONPATH:+$PYTHONPATH:}$checkout"
cd "$checkout"
if [ -n "$models" ]; then
  pair=$((seconds < 900 ? seconds : 900))
  python3 -m profiler.sweep.real_pair data/grids/real-pair-1.yaml --models "$models" --out "$out/real" --resume \
    --time-limit "$pair" || echo "the real pair ended with $?"
fi
[ "$(left)" -lt 120 ] || python3 -m profiler.sweep data/grids/cost-3.yaml --out "$out/cost" --work "$out/work" --cycles 2 \
  --resume --time-limit "$(left)"
echo "through after $(($(date +%s) - began)) s"
