"""Option groups: each option is declared once and means the same in every command.

A command takes whole groups as parameters:

    @command
    def roofline(device: Device, target: Target, output: Output) -> None: ...

and the decorator spreads their fields into options. Values stay text here; `inputs.py` reads them.
"""

# No `from __future__ import annotations`: typer reads the annotations as objects.
import functools
import inspect
import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

Text = str | None


@dataclass(frozen=True)
class Declared:
    """An option before typer sees it."""

    names: tuple[str, ...]
    kind: Any
    default: Any
    metavar: str | None
    help: str

    def parameter(self, name: str, panel: str) -> inspect.Parameter:
        """As a parameter of the function that typer inspects."""
        info = typer.Option(
            *self.names, help=self.help, metavar=self.metavar, rich_help_panel=panel, show_default=False
        )
        kind: Any = Annotated[self.kind, info]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=self.default)


def text(names: str, metavar: str, help: str, *, default: str | None = None) -> Any:
    """An option with a value."""
    return Declared(tuple(names.split()), Text if default is None else str, default, metavar, help)


def many(names: str, metavar: str, help: str) -> Any:
    """An option that may be repeated."""
    return Declared(tuple(names.split()), list[str], [], metavar, help)


def flag(names: str, help: str) -> Any:
    """An option without a value."""
    return Declared(tuple(names.split()), bool, False, None, help)


class Group:
    """A group of options: its class declares them, an instance holds their values."""

    panel: ClassVar[str]

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    @classmethod
    def declared(cls) -> dict[str, Declared]:
        known = {name: value for kind in reversed(cls.__mro__) for name, value in vars(kind).items()}
        return {name: value for name, value in known.items() if isinstance(value, Declared)}

    @classmethod
    def with_defaults(cls, **given: Any) -> Any:
        """The group with these values and the defaults of the others."""
        return cls(**({name: option.default for name, option in cls.declared().items()} | given))


class Device(Group):
    """Where it runs."""

    panel = "Device"
    gpu: Text = text("--gpu", "NAME|FILE", "Device profile: a name, a driver name or a YAML file.")
    settings: list[str] = many(
        "--set", "KEY=VALUE", "Override a profile field (model.KEY=VALUE: a model field). Repeatable."
    )
    engine: Text = text("--engine", "NAME", "Serving engine whose constants are used; unknown means an interval.")
    time: str = text(
        "--time", "ideal|calibrated", "Datasheet roofline or with losses. Default calibrated.", default="calibrated"
    )


class Target(Group):
    """The model that is served."""

    panel = "Target"
    model: Text = text("--model", "NAME|PATH", "Bundled model, config.json or its directory.")
    online: bool = flag("--online", "Look a model that is not here up on the Hugging Face hub (extra: hub).")
    params: Text = text("--params", "N", "Number of weights alone, such as 13e9.")
    layers: Text = text("--layers", "N", "Decoder layers, with --params.")
    dtype: Text = text("--dtype", "DTYPE", "Weights: fp16, bf16, fp8, int8, w8a8, int4, nvfp4, ...")
    weight_bits: Text = text("--weight-bits", "BITS", "Stored bits per weight, scales included, such as 4.25.")
    kv_dtype: Text = text("--kv-dtype", "DTYPE", "Dtype of the KV cache. Default 16 bits.")
    tp: str = text("--tp", "N", "Devices that share the model (tensor parallel). Default 1.", default="1")
    batch: str = text("--batch", "N", "Sequences in a pass. Default 1.", default="1")
    offload: Text = text("--offload", "all|experts", "Weights that lie in host memory and stream over the link.")
    context: Text = text("--context", "N", "Tokens in each sequence's cache; k is 1024. Default 0.")


class Draft(Group):
    """What proposes the tokens."""

    panel = "Draft"
    draft: list[str] = many(
        "--draft", "NAME|PATH", "Draft model: bundled name or config.json. Repeatable with --method specinfer."
    )
    draft_params: Text = text("--draft-params", "N", "Draft model known by its number of weights.")
    draft_dtype: Text = text("--draft-dtype", "DTYPE", "Dtype of the draft's weights.")
    draft_weight_bits: Text = text("--draft-weight-bits", "BITS", "Stored bits per draft weight.")
    draft_kv_dtype: Text = text("--draft-kv-dtype", "DTYPE", "Dtype of the draft's KV cache.")
    draft_tp: Text = text("--draft-tp", "N", "Devices that share the draft. Default: as the target.")
    draft_curve: Text = text("--draft-curve", "FILE", "Measured time of a draft pass by level width.")
    draft_pass: Text = text("--draft-pass", "TIME", "Time of a draft pass at any width, such as 0.5ms.")
    draft_ratio: Text = text("--draft-ratio", "R", "Draft pass over a plain pass, such as 0.057.")
    draft_shape: str = text(
        "--draft-shape", "sequential|block", "One pass a level, or one for the whole block.", default="sequential"
    )
    draft_passes: str = text(
        "--draft-passes",
        "CONVENTION",
        "all, all_but_leaf (default) or expanded: which levels are fed.",
        default="all_but_leaf",
    )
    overhead: Text = text("--overhead", "TIME", "Fixed time a round, such as 2ms. Default: the profile's.")


class Verify(Group):
    """The verification pass, measured."""

    panel = "Costs given directly"
    verify_curve: Text = text("--verify-curve", "FILE", "Measured time of a pass by width (CSV or JSON).")
    between: str = text("--between", "linear|step|never", "Between measured widths. Default linear.", default="linear")
    pass_tokens: Text = text(
        "--pass-tokens",
        "N",
        "Most tokens in a pass over the whole batch, as engines cap them.",
    )


class Acceptance(Group):
    """How likely a drafted token is accepted."""

    panel = "Acceptance"
    p: Text = text("--p", "P", "Independent candidates: each is accepted with probability P.")
    decay: Text = text("--decay", "D", "P shrinks by this factor a level, with --p.")
    child_prob: Text = text("--child-prob", "P1,P2,..", "P(the k-th child is the accepted one), tested in order.")
    ranked: bool = flag("--ranked", "Sort --child-prob: any rank may be used without the ones before.")
    alpha: Text = text("--alpha", "A1,A2,..", "Chain: position i accepted, given i-1 was.")
    survival: Text = text("--survival", "S1,S2,..", "Chain: at least i accepted (vLLM's per-position rate).")
    accept_length: Text = text("--accept-length", "TAU", "Tokens a round, bonus included, measured with --k.")
    accept_rate: Text = text("--accept-rate", "R", "Accepted over drafted tokens, measured with --k.")
    acceptance: list[str] = many(
        "--acceptance",
        "FILE[=WEIGHT]",
        "Acceptance document, table, log, metrics page or benchmark file; - is standard input. "
        "Repeatable: shares of rounds.",
    )
    denominator: Text = text(
        "--denominator", "drafted|generated", "What a bare percentage of accepted tokens is a share of."
    )
    measured_k: Text = text("--measured-k", "K", "Drafted tokens a round, where the file does not say it.")
    measured_topk: Text = text(
        "--measured-topk", "N", "SGLang's topk in that run: above 1 a tree was drafted, no chain."
    )
    as_: Text = text(
        "--as",
        "KIND",
        "What a bare list or mapping of numbers is: histogram, tokens, reached, child-prob, survival, alpha or by-k.",
    )
    served: Text = text(
        "--served", "MODEL", "The model, curve or category of a file of several; FILE#NAME of one file."
    )
    smooth: bool = flag(
        "--smooth", "Pool child probabilities that rise with the rank (sampling noise) into their mean."
    )
    rule: Text = text("--rule", "RULE", "Acceptance rule that the numbers were measured under.")
    temperature: Text = text("--temperature", "T", "Temperature that they were measured at.")
    workload: Text = text("--workload", "TEXT", "What was asked when they were measured, and with which template.")
    assume_ranks: bool = flag("--assume-ranks", "Plan trees from chain data, siblings taken as independent.")


class Shape(Group):
    """Limits of the tree, or a given one."""

    panel = "Shape"
    budget: Text = text("--budget", "N", "Most drafted tokens; the root is not counted.")
    max_depth: Text = text("--max-depth", "N", "Most draft levels. Default 16.")
    max_children: Text = text("--max-children", "N", "Most children of a node.")
    k: Text = text("--k", "K", "Evaluate the chain of K; with --accept-length, its measured K.")
    from_: Text = text("--from", "FILE", "Evaluate the tree in this file: paths, JSON, YAML, a growmap, ...")
    tie: Text = text("--tie", "SHARE", "Shapes this close to the best count as equal. Default 1%.")


class Length(Group):
    """The chain that a mean is of."""

    panel = "Acceptance"
    k: Text = text("--k", "K", "The K of --accept-length and --accept-rate; with --drift the chain compared.")


class Output(Group):
    """What is printed and where."""

    panel = "Output"
    json: bool = flag("--json", "Print one JSON document instead of text.")
    out: Text = text("--out", "FILE", "Also write the JSON document to FILE, whole or not at all.")
    quiet: bool = flag("--quiet -q", "Print the verdict line alone, no notes.")
    color: str = text("--color", "auto|always|never", "Colour and boxes. Default: on a terminal.", default="auto")
    strict: bool = flag("--strict", "Exit with 1 on 'do not speculate' and on a missing acceptance.")

    # What was typed, as one line that asks the same again; None for commands of two words.
    command: str | None = None


class Plot(Group):
    """The answer as a picture."""

    panel = Output.panel
    plot: Text = text("--plot", "FILE", "Also draw it into FILE.svg, .png or .pdf (extra: plot).")
    plot_theme: str = text("--plot-theme", "light|dark", "Colours of the picture. Default light.", default="light")


class Printed(Group):
    """What is printed, where --out takes something other than the document."""

    panel = Output.panel
    json: bool = Output.json
    quiet: bool = Output.quiet
    color: str = Output.color

    def as_output(self) -> Output:
        """The same choices as an `Output` that writes no document."""
        return Output(json=self.json, out=None, quiet=self.quiet, color=self.color, strict=False)


class Report(Group):
    """Where the report goes."""

    panel = Output.panel
    out: Text = text("--out", "FILE", "The report: FILE.html, whole or not at all.")


class Said(Output):
    """What is printed of the report; --out is the report itself."""

    json = Output.json
    out: Text = None
    quiet = Output.quiet
    color = Output.color
    strict = Output.strict


class Pass(Group):
    """The pass that `roofline` looks at."""

    panel = "Pass"
    width: str = text(
        "--width", "N|A..B", "New tokens per sequence in the pass; a range gives a row each. Default 1.", default="1"
    )
    measured_tpot: Text = text("--measured-tpot", "TIME", "Measured time per output token of plain decoding.")


class Baseline(Group):
    """What plain decoding reaches today."""

    panel = Target.panel
    measured_tpot = Pass.measured_tpot


class Stored(Group):
    """How the weights of `models show` are stored."""

    panel = Target.panel
    dtype = Target.dtype
    weight_bits = Target.weight_bits
    kv_dtype = Target.kv_dtype


class Mask(Group):
    """What `tree` prints beside the tree."""

    panel = "Output"
    mask: bool = flag("--mask", "Print the attention mask and the position offsets.")


class Rounds(Group):
    """How much is simulated."""

    panel = "Simulation"
    rounds: str = text("--rounds", "N", "Rounds to play. Default 1000000.", default="1000000")
    seed: str = text("--seed", "N", "The same seed gives the same rounds. Default 0.", default="0")


class Running(Group):
    """What is measured of the speculation that runs now."""

    panel = "In use"
    measured_tpot = Pass.measured_tpot
    measured_spec_tpot: Text = text(
        "--measured-spec-tpot", "TIME", "Measured time per output token with speculation, as it runs now."
    )
    round: Text = text("--round", "TIME", "Measured time of a round: draft, verification and the rest.")
    before: Text = text("--before", "FILE", "An earlier acceptance: did it change, and was the shape the best then?")


class Live(Group):
    """A running server, and two snapshots."""

    panel = "Acceptance"
    url: Text = text(
        "--url", "URL", "Read the metrics page of a running server, such as http://localhost:8000/metrics."
    )
    for_: Text = text("--for", "TIME", "With --url: read it twice, this long apart, and take the difference.")
    drift: bool = flag("--drift", "Compare two files, or two snapshots of a server's counters: A B --drift.")


class Probs(Group):
    """Next-token distributions, for `acceptance`."""

    panel = "Distributions"
    target_probs: Text = text("--target-probs", "P1,P2,..", "The target's probabilities of a few tokens.")
    draft_probs: Text = text("--draft-probs", "Q1,Q2,..", "The draft's probabilities of the same tokens.")
    children: Text = text("--children", "N", "Children at the node. Default: one for each token.")
    epsilon: Text = text("--epsilon", "E", "Typical acceptance: hard threshold. Default 0.09.")
    delta: Text = text("--delta", "D", "Typical acceptance: factor of exp(-entropy). Default 0.3.")


class More(Group):
    """Further questions on the same shape."""

    panel = "Shape"
    families: bool = flag("--families", "Also the best shape of each family that stacks can run, with its loss.")
    explain: bool = flag("--explain", "Also the limits of any tree, and how the optimum moves if inputs are 10 % off.")
    heads: Text = text("--heads", "N", "Heads, and so levels, of Medusa (--method medusa, --families). Default 5.")
    max_rank: Text = text("--max-rank", "N", "Most children of a node of its trees. Default 10.")


class Stack(Group):
    """The serving stack that a shape is for."""

    panel = "Stack"
    stack: Text = text(
        "--stack", "NAME[@VERSION]", "Only shapes that this stack runs, with its settings; specplan stacks lists them."
    )
    lower: bool = flag("--lower", "With --from or --k: the best member of the stack's family instead of a refusal.")


class Exported(Group):
    """What is exported, and to where."""

    panel = "Export"
    to: Text = text("--to", "NAME[@VERSION]", "The serving stack; specplan stacks lists them.")
    lower: bool = flag("--lower", "The best member of the stack's family instead of a refusal, with its loss.")
    schedule: Text = text("--schedule", "A-B:K,..", "Lengths by batch size, such as 1-4:4,5-16:2,17-512:0.")
    k: Text = text("--k", "K", "A chain of K; with --accept-length, its measured K.")
    synthetic: bool = flag("--synthetic", "Also simulated acceptance, to check the cost half without a good draft.")
    sweep: bool = flag("--sweep", "Instead the few settings around the plan that are worth measuring.")
    check: Text = text(
        "--check",
        "SETTINGS",
        "Judge hand-written settings (a file, flags or JSON): accepted, refused, taken otherwise.",
    )


class Served(Group):
    """How the stack is to be started."""

    panel = "Server"
    method: Text = text("--method", "NAME", "Way of drafting: chain (a draft model), eagle3, mtp, medusa, ngram, ...")
    model: Text = text("--model", "NAME|PATH", "The target as the stack loads it.")
    draft: Text = text("--draft", "NAME|PATH", "The draft as the stack loads it.")
    max_batch: Text = text("--max-batch", "N", "Most requests that the server takes at a time.")
    heads: Text = text("--heads", "N", "Heads that the draft has: levels at most.")
    max_rank: Text = text("--max-rank", "N", "Most children of a node.")
    exit_layer: Text = text("--exit-layer", "E", "layerskip: layers that draft.")
    n_predict: Text = text("--n-predict", "N", "mtp: tokens that one pass of the checkpoint's own head predicts.")


class Validated(Group):
    """What was measured."""

    panel = "Measured"
    bench: list[str] = many("--bench", "FILE", "A benchmark's result, or a CSV of a sweep. Repeatable.")
    tolerance: Text = text("--tolerance", "SHARE", "Exit with 1 when any term is further off, such as 15%.")


class Methods(Group):
    """How tokens are drafted."""

    panel = "Method"
    method: list[str] = many(
        "--method",
        "NAME",
        "chain, medusa, eagle, eagle3, mtp, specinfer, sequoia, layerskip or ngram. compare: repeatable, default all.",
    )
    exit_layer: Text = text(
        "--exit-layer", "E|E:P,E:P,..", "layerskip: layers that draft; with rates by exit layer the best is taken."
    )
    steps: Text = text("--steps", "N", "Draft levels at most; the cap of --drafted-per-round.")
    topk: Text = text("--topk", "N|N,N,..", "eagle, mtp: nodes of a draft pass. specinfer: children by step.")
    draft_models: str = text(
        "--draft-models",
        "in_turn|parallel",
        "Several --draft: one after another (default) or at once.",
        default="in_turn",
    )
    drafted_per_round: Text = text(
        "--drafted-per-round", "D", "Mean drafted tokens where drafting stops early; the cap is --k or --steps."
    )
    proposal_share: Text = text("--proposal-share", "SHARE", "ngram: rounds in which something is proposed.")


class Compared(Group):
    """What `compare` alone takes."""

    panel = Methods.panel
    heads = More.heads
    max_rank = More.max_rank
    acceptance_of: list[str] = many(
        "--acceptance-of", "METHOD=P|FILE", "Acceptance of one method in place of the common one. Repeatable."
    )


class Lead(Group):
    """What leads a report."""

    panel = Methods.panel
    lead: Text = text("--lead", "METHOD", "Whose verdict, tree and pass times are shown. Default: the best method's.")


class Goal(Group):
    """A burst that has to be in time, and what an hour costs."""

    panel = "Deadline and cost"
    tokens: Text = text("--tokens", "N", "A burst of N tokens after the first: how long it takes, how often late.")
    deadline: Text = text("--deadline", "TIME", "By when the burst has to be there, such as 2s.")
    percentile: Text = text("--percentile", "P", "Share of bursts that have to be in time. Default 99.")
    ttft: Text = text("--ttft", "TIME", "Time to the first token, added to every burst. Default 0s.")
    price_per_hour: Text = text("--price-per-hour", "PRICE", "Of one device (times --tp): price per million tokens.")


class Imported(Group):
    """Curves that others measured, and what they are of."""

    panel = "Curves"
    llama_bench: Text = text("--llama-bench", "FILE", "Output of llama-bench: JSON, JSON lines, CSV or its table.")
    csv: Text = text("--csv", "FILE", "Table of width and ms, s or tok_s; optional batch, context, dtype.")
    gpu: Text = text("--gpu", "NAME|FILE", "Profile that takes the curves. llama-bench files name their device.")
    model: Text = text("--model", "NAME", "Bundled model that was measured. llama-bench files say their weights.")
    params: Text = text("--params", "N", "Number of weights in place of --model.")
    dtype: Text = text("--dtype", "DTYPE", "Dtype of the weights, where the file does not say it.")
    out: Text = text("--out", "FILE", "Write the profile to FILE (.yaml), whole or not at all.")


class Measuring(Group):
    """Where and how carefully it is measured."""

    panel = "Measurement"
    device: Text = text("--device", "cuda:N|cpu", "Device to measure. Default: the first GPU, else the CPU.")
    threads: Text = text("--threads", "N", "CPU threads. One is timed by CPU time, more by the wall clock.")
    quick: bool = flag("--quick", "Fewer samples on smaller working sets: under a minute, wider bands.")


class Decoding(Group):
    """A target and a draft that really decode."""

    panel = "Decoding"
    model: Text = text("--model", "DIR|GGUF", "Target: a directory with safetensors, or a GGUF file.")
    draft: Text = text("--draft", "DIR|GGUF|early-exit:N|skip:N|ngram", "What drafts.")
    prompts: Text = text("--prompts", "FILE", "A prompt a line, or JSON lines with prompt, messages, turns or tokens.")
    tokens: str = text("--tokens", "N", "Longest answer. Default 128.", default="128")
    temperature: Text = text("--temperature", "T", "0 is greedy, the default.")
    rule: Text = text(
        "--rule", "RULE", "Above temperature 0: without_replacement (default), topk, strict, or typical (not lossless)."
    )
    dtype: str = text("--dtype", "fp32|bf16|fp16|fp64", "Of weights and cache. Default fp32.", default="fp32")
    device: Text = text("--device", "cuda:N|cpu", "Default: the first GPU, else the CPU.")
    threads: Text = text("--threads", "N", "CPU threads. Default 1, timed by CPU time; more by the wall clock.")
    seed: Text = text("--seed", "N", "Of sampling. Default 0.")


class Validation(Group):
    """What is validated."""

    panel = "Validation"
    from_: Text = text("--from", "FILE", "The tree: a tree's or a plan's JSON, or a list of paths.")
    acceptance: Text = text("--acceptance", "FILE", "What predicts tokens a round, from measure acceptance.")
    profile: Text = text("--profile", "FILE", "Predict passes by this profile. Default: passes timed alone here.")
    tolerance: Text = text(
        "--tolerance", "SHARE", "Exit with 1 when tokens a round, its time or tokens/s are off by more."
    )


class Measured(Group):
    """What `measure device` measures, and where it goes."""

    panel = Measuring.panel
    out: Text = text("--out", "FILE", "Write the profile to FILE (.yaml), whole or not at all.")
    dtype: Text = text("--dtype", "DTYPE,..", "What to multiply and stream in. Default: all that the device has.")
    gpu: Text = text("--gpu", "NAME|FILE", "Datasheet to compare with. Default: the profile of the driver's name.")
    tp: str = text("--tp", "N", "Under torchrun: time the all-reduce of N devices alone, into --out.", default="1")


class Curves(Group):
    """What `measure curve` times, and where it goes."""

    panel = Measuring.panel
    profile: Text = text("--profile", "FILE", "Profile (.yaml) of this device that takes the curves. Default: none.")
    model: Text = text(
        "--model", "NAME|PATH", "Bundled model, config.json or its directory: its shape, random weights."
    )
    draft: list[str] = many("--draft", "NAME|PATH", "Draft model to time as well. Repeatable.")
    dtype: str = text("--dtype", "DTYPE", "Weights and cache: bf16 (default), fp16 or fp32.", default="bf16")
    context: str = text("--context", "N,N,..", "Tokens in the cache; k is 1024. Default 128.", default="128")
    batch: str = text("--batch", "N,N,..", "Sequences in a pass. Default 1.", default="1")
    widths: Text = text("--widths", "N,N,..|A..B", "Widths to time, 1 among them. Default: around tile edges.")
    depths: Text = text(
        "--depths", "N,N", "Layers to time, the rest extrapolated. Default: the whole model if it fits."
    )
    csv: Text = text("--csv", "FILE", "Also write the table to FILE (hardware import reads it).")


def _command_line(verb: str, groups: Iterable[Group], arguments: Iterable[Any]) -> str:
    """The command that asks the same question again, what is printed and where left out."""
    words = ["specplan", verb]
    for value in arguments:
        words += value if isinstance(value, list) else [] if value is None else [str(value)]
    for group in groups:
        for name, option in type(group).declared().items():
            value = getattr(group, name)
            if type(group).panel != Output.panel and value not in (option.default, None):
                words += _option_words(option.names[0], value)
    return shlex.join(words)


def _option_words(name: str, value: Any) -> list[str]:
    """An option as it is typed; a value that looks like an option is tied to its name.

    >>> _option_words("--method", ["chain", "eagle"]), _option_words("--ranked", True), _option_words("--p", "-1")
    (['--method', 'chain', '--method', 'eagle'], ['--ranked'], ['--p=-1'])
    """
    if value is True:
        return [name]
    if isinstance(value, list):
        return [word for each in value for word in _option_words(name, each)]
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Spread the option groups among the parameters of `function` into single options."""
    spread: list[inspect.Parameter] = []
    groups: dict[str, type[Group]] = {}
    for parameter in inspect.signature(function).parameters.values():
        kind = parameter.annotation
        if isinstance(kind, type) and issubclass(kind, Group):
            groups[parameter.name] = kind
            spread.extend(option.parameter(name, kind.panel) for name, option in kind.declared().items())
        else:
            spread.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(function)
    def run(**values: Any) -> None:
        taken = {
            name: kind(**{option: values.pop(option) for option in kind.declared()}) for name, kind in groups.items()
        }
        output = taken.get("output")
        if isinstance(output, Output) and function.__module__.endswith(f".{function.__name__}"):
            output.command = _command_line(function.__name__, taken.values(), values.values())
        function(**taken, **values)

    del run.__wrapped__  # inspect would look behind the new signature
    run.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in spread}
    return run
