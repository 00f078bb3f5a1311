"""How large is this model, and what does one step of it read, compute and keep?

Physics: a decode pass reads every weight that its tokens touch once (no embedding table; of routed experts those that
are chosen), multiplies 2 FLOPs per active parameter and token, and reads the cache of the tokens attended to. All
counts come from the config; nothing is fitted here. What a config does not say has been refused by the reader.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from profiler.architecture.parts import LayerGroup, WeightGroup
from profiler.errors import ArchitectureError

HeadKind = Literal["eagle", "eagle3", "medusa", "mtp", "dflash", "peagle", "dspark", "mlp_speculator"]
Numbers = TypeVar("Numbers", float, npt.NDArray[np.float64])

# Bytes per cached element under vLLM's --kv-cache-dtype names (vllm/config/cache.py, CacheDType).
KV_DTYPE_BYTES = {
    "bfloat16": 2, "float16": 2, "half": 2, "float32": 4, "float": 4,
    "fp8": 1, "fp8_e4m3": 1, "fp8_e5m2": 1, "fp8_inc": 1, "fp8_ds_mla": 1, "int8": 1,
}  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """One model or drafter head: its identity, the weights it loads and the layers that keep a cache.

    A drafter head's `parameters` and `weight_bytes` are its own; what it borrows from its target (embedding table, and
    the output head of EAGLE-1) is read in a pass but loaded once, with the target.
    """

    name: str
    model_type: str
    architectures: tuple[str, ...]
    hidden_size: int
    num_layers: int
    vocab_size: int | None
    num_attention_heads: int
    num_kv_heads: int
    head_dim: int
    max_position_embeddings: int | None
    tie_word_embeddings: bool
    dtype: str  # of the unquantised weights and of the activations: "bfloat16" or "float16"
    weights: tuple[WeightGroup, ...]
    layers: tuple[LayerGroup, ...]
    quantization: str | None = None  # vLLM's name of the method; None is 16 bit
    compute_dtype: Literal["bf16", "fp8"] = "bf16"  # of the quantised matrix products
    kv_cache_quantization: str | None = None  # what the checkpoint asks for; vLLM follows it only in some versions
    head_kind: HeadKind | None = None
    draft_vocab_size: int | None = None
    draft_tokens: int | None = None  # the k a head was made for (Medusa heads, block size - 1), where it says so
    target_layers: int | None = None  # the layer count of the target a head was trained for, where it says so
    experts: int | None = None
    experts_per_token: int | None = None
    mtp_head: Architecture | None = None  # the multi-token-prediction module beside it, not part of `parameters`
    is_mla: bool = False
    is_multimodal: bool = False
    notes: tuple[str, ...] = ()  # what a reader of the numbers should know (what was not counted, and why)

    @property
    def is_drafter_head(self) -> bool:
        """Whether this is a head on a target's hidden states (EAGLE, Medusa, MTP, ...), which cannot serve alone."""
        return self.head_kind is not None

    @property
    def mtp_layers(self) -> int:
        """Multi-token-prediction layers that the config declares, 0 without."""
        return 0 if self.mtp_head is None else self.mtp_head.draft_tokens or 1

    @functools.cached_property
    def parameters(self) -> int:
        """All parameters once (tied tables once), the image or audio tower included, multi-token modules left out."""
        return sum(group.parameters for group in self.weights if not group.borrowed)

    @functools.cached_property
    def active_parameters(self) -> int:
        """Parameters that one token passes: of the routed experts only those chosen; no tower.

        The embedding table counts (as in published numbers such as DeepSeek-V3's 37B; gpt-oss's leave it out).
        """
        return round(
            sum(
                group.parameters * (group.experts_per_token / group.experts if group.experts else 1.0)
                for group in self.weights
                if not group.borrowed and group.role != "vision"
            )
        )

    @functools.cached_property
    def embedding_parameters(self) -> int:
        """The input token table alone (0 for a head that borrows its target's)."""
        return sum(group.parameters for group in self.weights if group.role == "embedding" and not group.borrowed)

    @functools.cached_property
    def vision_parameters(self) -> int:
        """Parameters of image or audio towers: loaded, never read in decoding."""
        return sum(group.parameters for group in self.weights if group.role == "vision")

    @functools.cached_property
    def weight_bytes(self) -> int:
        """Bytes of all weights as loaded, quantisation scales included, over all ranks together."""
        return round(sum(group.size_bytes for group in self.weights if not group.borrowed))

    @property
    def matmul_dtype_bytes(self) -> int:
        """Bytes of one operand element in the main matrix products: 1 with 8-bit activations, else 2."""
        return 1 if self.compute_dtype == "fp8" else 2

    @property
    def _stored(self) -> list[LayerGroup]:
        return [group for group in self.layers if group.kv_elements and group.kind != "shared"]

    @property
    def kv_layers(self) -> int:
        """Layers whose cache grows with the context without bound."""
        return sum(group.count for group in self._stored if group.window is None)

    @property
    def window_layers(self) -> int:
        """Layers that keep only a window of the context."""
        return sum(group.count for group in self._stored if group.window is not None)

    @property
    def window(self) -> int | None:
        """The widest sliding window in tokens, None without one."""
        windows = [group.window for group in self._stored if group.window is not None]
        return max(windows, default=None)

    @functools.cached_property
    def _fixed_decode_bytes(self) -> float:
        always = sum(
            g.size_bytes for g in self.weights if g.role not in ("embedding", "position", "vision") and not g.experts
        )
        tied = sum(g.size_bytes for g in self.weights if g.role == "embedding") if self.tie_word_embeddings else 0.0
        return always + tied

    def decode_weight_bytes(self, tokens: Numbers) -> Numbers:
        """Bytes of weights that one forward pass over `tokens` tokens reads; same shape as `tokens`.

        Of E routed experts, k a token, the expected number that are touched is E (1 - (1 - k/E)^tokens): tokens choose
        independently and evenly (Fedus et al. 2022 train for that balance), so that this is an upper bound where they
        do not.
        """
        routed: Any = 0.0
        for group in self.weights:
            if group.experts:
                share = min(1.0, group.experts_per_token / group.experts)
                routed = routed + group.size_bytes * (1.0 - (1.0 - share) ** tokens)
        return self._fixed_decode_bytes + routed + 0.0 * tokens  # type: ignore[no-any-return]

    @functools.cached_property
    def matmul_parameters(self) -> int:
        """Parameters that multiply one token's activations in decoding: active matrices, the output head included."""
        total = 0.0
        for group in self.weights:
            if group.role == "embedding":
                total += group.parameters if self.tie_word_embeddings else 0
            elif group.role != "vision":
                total += group.matmul_parameters * (group.experts_per_token / group.experts if group.experts else 1.0)
        return round(total)

    def flops_per_token(self, context: Numbers) -> Numbers:
        """FLOPs to process one token that attends to `context` tokens; same shape as `context`.

        2 per active matmul parameter (Kaplan et al. 2020, section 2.1), and 2 x heads x (key + value size) per layer
        and token attended to, a window capping what is attended to. MLA as in decoding (the absorbed form).
        """
        attention: Any = 0.0 * context
        for group in self.layers:
            if group.score_width:
                entries = (
                    context if group.window is None else np.minimum(context, group.window)
                ) / group.tokens_per_entry
                entries = entries if group.attended is None else np.minimum(entries, group.attended)
                attention = attention + 2.0 * group.count * group.score_width * entries
        return 2.0 * self.matmul_parameters + attention  # type: ignore[no-any-return]

    def _kv_element_bytes(self, kv_cache_dtype: str) -> int:
        if kv_cache_dtype == "auto":
            return KV_DTYPE_BYTES.get(self.dtype, 2)
        if kv_cache_dtype not in KV_DTYPE_BYTES:
            raise ArchitectureError(
                "Unknown KV cache data type", expected="auto or one of " + ", ".join(sorted(KV_DTYPE_BYTES)),
                got=repr(kv_cache_dtype), field="kv_cache_dtype",
            )  # fmt: skip
        return KV_DTYPE_BYTES[kv_cache_dtype]

    def kv_bytes_per_token(self, kv_cache_dtype: str = "auto") -> int:
        """Bytes that one more token of context adds, over all layers whose cache grows without bound and all ranks.

        Sum over layers of 2 x KV heads x head size x bytes (MLA: latent + rope size once). Where every layer slides
        over a window, the bytes of one token inside it. "auto" is the model's 16-bit type, even where the checkpoint
        carries KV scales (see `kv_cache_quantization`). A sparse attention's own key cache comes on top:
        `index_bytes_per_token`.
        """
        size = self._kv_element_bytes(kv_cache_dtype)
        unbounded = [group for group in self._stored if group.window is None] or self._stored
        return round(sum(g.count * g.kv_elements * size / g.tokens_per_entry for g in unbounded))

    @property
    def index_bytes_per_token(self) -> int:
        """Bytes per token of the indexers' key caches (DeepSeek sparse attention); 0 for other models."""
        return round(sum(group.count * group.index_bytes / group.tokens_per_entry for group in self.layers))

    @property
    def state_bytes(self) -> int:
        """Constant bytes per sequence (recurrent and convolution states); 0 for attention alone."""
        return sum(group.count * group.state_bytes for group in self.layers)

    def kv_read_bytes(self, context: Numbers, kv_cache_dtype: str = "auto") -> Numbers:
        """Bytes of cache that one sequence's decode step reads at `context` tokens; same shape as `context`.

        Windows and chunks cap what is read, sparse attention reads the entries that it chose and all of its index,
        layers that share a cache read it each.
        """
        size = self._kv_element_bytes(kv_cache_dtype)
        total: Any = float(self.state_bytes) + 0.0 * context
        for group in self.layers:
            if group.kv_elements:
                entries = (
                    context if group.window is None else np.minimum(context, group.window)
                ) / group.tokens_per_entry
                total = total + group.count * group.index_bytes * entries
                read = entries if group.attended is None else np.minimum(entries, group.attended)
                total = total + group.count * group.kv_elements * size * read
        return total  # type: ignore[no-any-return]

    def kv_cache_bytes(self, tokens: Numbers, kv_cache_dtype: str = "auto", block_size: int = 16) -> Numbers:
        """Bytes that one sequence of `tokens` tokens occupies, in whole blocks of `block_size`.

        Same shape as `tokens`.
        """
        size = self._kv_element_bytes(kv_cache_dtype)
        total: Any = float(self.state_bytes) + 0.0 * tokens
        for group in self._stored:
            kept = tokens if group.window is None else np.minimum(tokens, group.window)
            blocks = np.ceil(kept / block_size) * block_size
            total = (
                total + group.count * (group.kv_elements * size + group.index_bytes) / group.tokens_per_entry * blocks
            )
        return total  # type: ignore[no-any-return]
