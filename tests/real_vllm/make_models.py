"""The models that real servers are tested with; run by vLLM's interpreter: make_models.py GGUF_FOLDER OUT_FOLDER

SmolLM2-135M-Instruct (Apache-2.0) from its GGUF, and a drafter that is the same model with some of its layers. Which
layers matters: four naive ones accept nothing, these accept about a quarter of the drafts. A third folder has a
vocabulary of another size, for refusals; it needs no weights.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

DRAFTER_LAYERS = (0, 1, 2, 8, 11, 15, 16, 17, 18, 19, 20, 24, 28, 29)


def make_models(gguf_folder: Path, out: Path) -> None:
    """Write `smollm`, `drafter` and `other_vocabulary` below `out`."""
    (gguf,) = gguf_folder.glob("*.gguf")
    model = AutoModelForCausalLM.from_pretrained(
        gguf_folder,
        gguf_file=gguf.name,
        dtype=torch.float32,
        quantization_config=GgufConfig(gguf_file=gguf.name, dequantize=True),
    )
    tokenizer = AutoTokenizer.from_pretrained(gguf_folder, gguf_file=gguf.name)
    _save(model, tokenizer, out / "smollm")
    layers = [model.model.layers[i] for i in DRAFTER_LAYERS]
    for place, layer in enumerate(layers):
        layer.self_attn.layer_idx = place
    model.model.layers = torch.nn.ModuleList(layers)
    model.config.num_hidden_layers = len(layers)
    if getattr(model.config, "layer_types", None) is not None:
        model.config.layer_types = model.config.layer_types[: len(layers)]
    _save(model, tokenizer, out / "drafter")
    other = out / "other_vocabulary"
    tokenizer.save_pretrained(other)
    config = json.loads((out / "drafter" / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"vocab_size": 32000}))


def _save(model: AutoModelForCausalLM, tokenizer: AutoTokenizer, folder: Path) -> None:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    make_models(Path(sys.argv[1]), Path(sys.argv[2]))
