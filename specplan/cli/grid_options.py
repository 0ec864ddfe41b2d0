"""The options of `sweep`: those of a plan, of which several may be given, and how the grid is evaluated."""

# No `from __future__ import annotations`: typer reads the annotations as objects.
from .options import Acceptance, Device, Draft, Group, Methods, More, Output, Shape, Target, Text, flag, many, text


class Devices(Group):
    """Where it runs, several."""

    panel = Device.panel
    gpu: list[str] = many("--gpu", "NAME,NAME|FILE", "Device profiles; repeatable.")
    engine: list[str] = many("--engine", "NAME,NAME", "Serving engines whose constants are used; repeatable.")
    settings = Device.settings
    time = Device.time


class Targets(Group):
    """Models and loads, several."""

    panel = Target.panel
    model: list[str] = many("--model", "NAME,NAME|PATH", "Bundled models, config.json files; repeatable.")
    dtype: list[str] = many("--dtype", "DTYPE,DTYPE", "Weights: fp16, bf16, fp8, int8, w8a8, int4, ...; repeatable.")
    tp: str = text("--tp", "N,N|A..B", "Devices that share the model. Default 1.", default="1")
    batch: str = text("--batch", "N,N|A..B", "Sequences in a pass. Default 1.", default="1")
    context: Text = text("--context", "N,N", "Tokens in each sequence's cache; k is 1024. Default 0.")
    online = Target.online
    params = Target.params
    layers = Target.layers
    weight_bits = Target.weight_bits
    kv_dtype = Target.kv_dtype
    offload = Target.offload


class Drafts(Draft):
    """What proposes the tokens, several."""

    draft: list[str] = many("--draft", "NAME,NAME|PATH", "Draft models; repeatable.")
    draft_curve = None


class Ways(Group):
    """How tokens are drafted, several."""

    panel = Methods.panel
    method: list[str] = many(
        "--method",
        "NAME,NAME",
        "chain, medusa, eagle, eagle3, mtp, specinfer, sequoia, layerskip, ngram; repeatable. "
        "Default: any tree, with --draft.",
    )
    exit_layer: Text = text("--exit-layer", "E", "layerskip: layers that draft.")
    steps = Methods.steps
    topk = Methods.topk
    heads = More.heads
    max_rank = More.max_rank
    proposal_share = Methods.proposal_share


class Chances(Acceptance):
    """How likely a drafted token is accepted, several."""

    p: Text = text("--p", "P,P|A..B[:STEP]", "Independent candidates: each is accepted with probability P.")
    acceptance: list[str] = many(
        "--acceptance", "FILE", "Acceptance document, table, log, metrics page or benchmark file; repeatable: one each."
    )


class Limit(Shape):
    """Limits of the trees."""

    k: Text = text("--k", "K", "With --accept-length and --accept-rate: the K that was measured.")
    from_ = None


class Grid(Group):
    """How the grid is evaluated."""

    panel = "Grid"
    grid: Text = text("--grid", "FILE", "YAML with the options above as keys, lists where there are several.")
    jobs: Text = text("--jobs", "N", "Processes. Default: one a core.")
    scheduler: Text = text("--scheduler", "ADDRESS", "A Dask scheduler, such as tcp://host:8786 (extra: dask).")
    restart: bool = flag("--restart", "Forget what an interrupted sweep left beside --out.")
    table: Text = text("--table", "FILE", "The rows of an earlier sweep: pivot them, compute nothing.")
    pivot: Text = text(
        "--pivot",
        "ROWS,COLS,VALUE",
        "A table of VALUE, the largest where there are several; of words and shapes, the fastest point's.",
    )


class Rows(Output):
    """What is printed and where."""

    out: Text = text("--out", "FILE", "Write the rows: FILE.csv, FILE.jsonl or FILE.parquet (extra: sweep).")
