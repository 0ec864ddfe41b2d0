"""What a model class fixes without saying so in its config: ties, biases, norms, windows.

Source of every row: the class's configuration and modelling file in transformers (5.24), or the model's
own remote code for the classes that live on the hub (ChatGLM, Qwen 1, InternLM, MPT, DeepSeek, Kimi).
Fields of the config always win over a row; a class without a row is read as a Llama, and that is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Family:
    """The silent facts of one model class.

    tied        input embedding and LM head share weights when the config does not say
    gated       the MLP has gate, up and down; otherwise up and down
    norms       norms of hidden size per layer
    norm_parts  weights per norm channel: 0 none, 1 scale, 2 scale and shift
    qk_norm     head: one norm of head size for queries, one for keys; full: as wide as all heads; none: no weights
    qk_default  whether the class has these norms when the config has no use_qk_norm
    qkv_bias, o_bias, mlp_bias    the default; *_keys are the config fields that override it
    expert_bias, router_bias, sinks, positions, head_bias    extra tensors of the class
    shared      the class has one shared expert of expert width without a field for it
    shared_gate a gate vector weighs the shared experts
    own_width   the experts have a width of their own, which the config must state
    latent      the cache is a latent, whose sizes the config must state unless use_mla is false
    windowed    which layers have the window: all, even, odd, every (all but each `period`-th), or
                late (from max_window_layers on)
    window      the class's window when the config has no such field
    period      of the full-attention layers for `every`
    opt_in      the window counts only with use_sliding_window
    gate_heads  the query projection is doubled by an output gate
    head_dim    when the config has none and the class does not divide hidden size by heads
    mlp_ratio   MLP width over hidden size when the config has none
    whole       class defaults for a nested config that leaves the whole shape out
    partial     class defaults that nested configs of this class leave out one by one
    """

    tied: bool = False
    gated: bool = True
    norms: int = 2
    norm_parts: int = 1
    qk_norm: str = ""
    qk_default: bool = True
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qkv_keys: tuple[str, ...] = ("attention_bias",)
    o_keys: tuple[str, ...] = ("attention_bias",)
    mlp_keys: tuple[str, ...] = ("mlp_bias",)
    expert_bias: bool = False
    router_bias: bool = False
    sinks: bool = False
    positions: int = -1
    head_bias: bool = False
    embedding_norm: bool = False
    shared: bool = False
    shared_gate: bool = False
    own_width: bool = False
    latent: bool = False
    windowed: str = "all"
    window: int | None = None
    period: int = 0
    opt_in: bool = False
    gate_heads: bool = False
    head_dim: int | None = None
    mlp_ratio: int = 0
    whole: Mapping[str, int] = field(default_factory=dict)
    partial: Mapping[str, int] = field(default_factory=dict)


_LLAMA_7B = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
}
_MISTRAL_7B = {**_LLAMA_7B, "num_key_value_heads": 8, "intermediate_size": 14336}
_GEMMA_3_4B = {
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "vocab_size": 262_208,
    "max_position_embeddings": 131_072,
}

_LLAMA = Family(whole=_LLAMA_7B)
_QWEN2 = Family(qkv_bias=True, qkv_keys=("qkv_bias",), o_keys=(), windowed="late", opt_in=True)
_QWEN3 = Family(qk_norm="head", windowed="late", opt_in=True, head_dim=128)
_QWEN3_NEXT = Family(qk_norm="head", shared_gate=True, own_width=True, gate_heads=True, head_dim=256)
_GEMMA = Family(tied=True, head_dim=256)
_GEMMA2 = Family(tied=True, norms=4, windowed="even", window=4096, head_dim=256)
_GEMMA3 = Family(
    tied=True, norms=4, qk_norm="head", windowed="every", window=4096, period=6, head_dim=256, partial=_GEMMA_3_4B
)
# Everything biased, LayerNorm with a shift, two MLP matrices.
_GPT = Family(
    gated=False,
    norm_parts=2,
    qkv_bias=True,
    o_bias=True,
    mlp_bias=True,
    qkv_keys=(),
    o_keys=(),
    mlp_keys=(),
    mlp_ratio=4,
)
_GPT2 = replace(_GPT, tied=True, positions=0)
_PARALLEL = replace(_GPT, norms=1, head_bias=True)
_FALCON = replace(
    _GPT,
    tied=True,
    qkv_bias=False,
    o_bias=False,
    mlp_bias=False,
    qkv_keys=("bias",),
    o_keys=("bias",),
    mlp_keys=("bias",),
)
_HALF_BIASED = replace(_PARALLEL, qkv_bias=False, o_bias=False)
_USE_BIAS = replace(_GPT, tied=True, qkv_keys=("use_bias",), o_keys=("use_bias",), mlp_keys=("use_bias",))
_GEMMA4 = replace(_GEMMA3, window=512, partial={}, own_width=True)
_ERNIE = Family(tied=True, qkv_keys=("use_bias",), o_keys=("use_bias",), mlp_keys=("use_bias",))
_DEEPSEEK = Family(own_width=True)
_DEEPSEEK2 = Family(own_width=True, latent=True)
_DEEPSEEK3 = Family(router_bias=True, own_width=True, latent=True)
_GLM4_MOE = Family(qk_norm="head", qk_default=False, o_keys=(), router_bias=True, own_width=True)

FAMILIES: dict[str, Family] = {
    "llama": _LLAMA,
    "mistral": Family(whole=_MISTRAL_7B),
    "ministral3": Family(),
    "mixtral": Family(),
    "baichuan": Family(),
    "orion": Family(norm_parts=2),
    "internlm": Family(qkv_keys=("bias",), o_keys=("bias",), qkv_bias=True, o_bias=True),
    "internlm2": Family(qkv_keys=("bias",), o_keys=("bias",)),
    "minicpm": Family(tied=True),
    "granite": Family(),
    "granitemoe": Family(),
    "granitemoeshared": Family(),
    "smollm3": Family(tied=True, opt_in=True),
    "seed_oss": Family(qkv_bias=True, o_keys=("attention_out_bias",)),
    "olmo": Family(norm_parts=0),
    "olmo2": Family(qk_norm="full"),
    "olmo3": Family(qk_norm="full", windowed="every", window=4096, period=4),
    "olmoe": Family(qk_norm="full"),
    "exaone4": Family(qk_norm="head", windowed="every", period=4),
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": replace(_ERNIE, router_bias=True, own_width=True),
    "hunyuan_v1_dense": Family(qk_norm="head"),
    "hunyuan_v1_moe": Family(qk_norm="head"),
    "dots1": Family(qk_norm="head", windowed="late", own_width=True),
    "minimax_m2": Family(qk_norm="full", router_bias=True, head_dim=128),
    "qwen": Family(qkv_bias=True, qkv_keys=(), o_keys=(), mlp_keys=()),
    "qwen2": _QWEN2,
    "qwen2_moe": replace(_QWEN2, shared_gate=True, own_width=True),
    "qwen3": _QWEN3,
    "qwen3_moe": replace(_QWEN3, head_dim=None, own_width=True),
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5": _QWEN3_NEXT,
    "qwen3_5_moe": _QWEN3_NEXT,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "gemma3n": replace(_GEMMA3, window=512, period=5, partial={}),
    "gemma4": _GEMMA4,
    "cohere": Family(tied=True, norms=1, qk_norm="full", qk_default=False),
    "cohere2": Family(tied=True, norms=1, windowed="every", window=4096, period=4),
    "phi": replace(_PARALLEL, qk_norm="full", qk_default=False),
    "phi-msft": _PARALLEL,
    "phi3": Family(),
    "phi3_v": Family(),
    "stablelm": Family(norm_parts=2, qkv_keys=("use_qkv_bias",), o_keys=()),
    "starcoder2": _USE_BIAS,
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "opt": replace(_GPT2, positions=2),
    "bloom": replace(_GPT, tied=True, embedding_norm=True),
    "gpt_neox": replace(_GPT, qkv_keys=("attention_bias",), o_keys=("attention_bias",)),
    "gpt_neo": replace(_GPT2, tied=True, qkv_bias=False, windowed="odd", window=256),
    "gptj": _HALF_BIASED,
    "codegen": _HALF_BIASED,
    "falcon": _FALCON,
    "refinedweb": _FALCON,
    "refinedwebmodel": _FALCON,
    "mpt": Family(tied=True, gated=False, qkv_keys=(), o_keys=(), mlp_keys=(), mlp_ratio=4),
    "dbrx": Family(),
    "chatglm": Family(
        qkv_bias=True,
        qkv_keys=("add_qkv_bias", "add_bias_linear"),
        o_keys=("add_bias_linear",),
        mlp_keys=("add_bias_linear",),
    ),
    "glm": Family(qkv_bias=True, o_keys=()),
    "glm4": Family(qkv_bias=True, o_keys=(), norms=4),
    "glm4_moe": _GLM4_MOE,
    "glm4_moe_lite": _DEEPSEEK3,
    "glm_moe_dsa": _DEEPSEEK3,
    "deepseek": _DEEPSEEK,
    "deepseek_v2": _DEEPSEEK2,
    "deepseek_v3": _DEEPSEEK3,
    "deepseek_v32": _DEEPSEEK3,
    "kimi_k2": _DEEPSEEK3,
    "gpt_oss": Family(
        qkv_bias=True,
        o_bias=True,
        expert_bias=True,
        router_bias=True,
        sinks=True,
        windowed="even",
        window=128,
        head_dim=64,
    ),
    "llama4": Family(shared=True, qk_norm="none", head_dim=128, windowed="every", period=4),
    "nemotron": Family(gated=False, norm_parts=2),
    "nemotron_h": Family(gated=False, norms=1, router_bias=True, own_width=True),
    "nemotron-nas": Family(),
    "arcee": Family(gated=False),
    "jamba": Family(),
    "lfm2": Family(tied=True, qk_norm="head"),
    "bamba": Family(),
    "granitemoehybrid": Family(),
    "falcon_h1": Family(),
    "apertus": Family(gated=False, qk_norm="head"),
    "phimoe": Family(norm_parts=2),
    "mimo_v2_flash": Family(router_bias=True, own_width=True),
    "minimax_m3": Family(qk_norm="head", router_bias=True),
    "mimo": Family(qkv_bias=True, o_keys=()),
    "mamba": Family(tied=True, norms=1),
    "mamba2": Family(norms=1),
    "falcon_mamba": Family(tied=True, norms=1),
}

# Classes whose configs have no field for grouped queries, or use it in one variant alone.
MULTI_HEAD: tuple[str, ...] = ("gpt2", "opt", "bloom", "gpt_neox", "gpt_neo", "gptj", "codegen", "gpt_bigcode")
MULTI_HEAD += ("mpt", "falcon", "refinedweb", "refinedwebmodel", "qwen", "phi-msft", "baichuan", "internlm")

_ALIASES = {
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_omni_moe": "qwen3_moe",
    "mistral3": "ministral3",
    "kimi_k25": "kimi_k2",
    "deci": "nemotron-nas",
    "gpt_refact": "gpt_bigcode",
    "minimax_m3_vl": "minimax_m3",
    "yi": "llama",
    "aquila": "llama",
    "llama2": "llama",
}


def family_of(model_type: str, architecture: str = "") -> tuple[str, Family | None]:
    """The row for a `model_type`, or for the first of `architectures` when that has none.

    Returns  the row's name and the row, or the given name and None.

    >>> family_of("gemma3_text")[0], family_of("", "LlamaForCausalLM")[0]
    ('gemma3', 'llama')
    """
    for name in (model_type.casefold(), _snake(architecture)):
        for key in (name, name.removesuffix("_text"), name.removesuffix("_model")):
            key = _ALIASES.get(key, key)
            if key in FAMILIES:
                return key, FAMILIES[key]
    return model_type or architecture or "unknown", None


_FAMILY_BY_CLASS = {key.replace("_", "").replace("-", ""): key for key in FAMILIES}


def _snake(architecture: str) -> str:
    """`Qwen3MoeForCausalLM` as `qwen3_moe`, when there is such a row."""
    stem = architecture.partition("For")[0].casefold()
    return _FAMILY_BY_CLASS.get(stem.removesuffix("lmhead").removesuffix("model"), "")
