"""The `specworth` command: finds the command that is meant, runs it, and tells errors as one line.

Exit codes: 0 for any verdict, 2 for wrong usage or input, 1 for a failure of ours, 130 after Ctrl-C and 141 when nobody
reads the output any more (as the shell has it). `--debug` shows the traceback behind an error.

Nothing but Typer is imported here and in the commands' signatures: `--help` is answered in 0.1 s. Typer's own Rich
help would take as long again, so help is plain text and Rich is left to the answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from api.commands import (
    advise,
    catalog,
    data,
    database,
    evaluate,
    features,
    gate,
    keys,
    memory,
    observe,
    plan,
    profile,
    serve,
    sweep,
    train,
    worker,
)
from api.commands.group import Group

Job = Callable[[], int]  # what a command does, once its options are read; returns the exit code

_HELP = """Is speculative decoding worth it for your vLLM workload? Ask with a sample of your own prompts.

\b
  specworth advise prompts.jsonl --target meta-llama/Llama-3.1-8B-Instruct --gpu H200 --concurrency 16
  specworth memory --target Qwen/Qwen3-32B --gpu "H100 SXM" --tensor-parallel-size 2
  specworth observe http://127.0.0.1:8000 --for 60s
  specworth catalog models --search llama
  specworth serve --port 8000

Each command explains itself: specworth advise --help"""

app = typer.Typer(
    name="specworth",
    cls=Group,
    help=_HELP,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("advise", short_help="The main job: a verdict for your prompts, model, GPU and traffic.")(advise.advise)
app.command("features", short_help="What predictions need of your prompts, without their texts.")(features.features)
app.command("memory", short_help="vLLM's memory plan, with and without a drafter.")(memory.memory)
app.add_typer(catalog.app, name="catalog", short_help="Models, drafter heads and GPUs that are known by name.")
app.command("profile", short_help="Measure a real vLLM with your prompts, without and with speculation.")(
    profile.profile
)
app.command("gate", short_help="May it be rolled out? A policy against evidence or two live servers.")(gate.gate)
app.command("plan", short_help="Replicas and cost of a demand, with speculation and without.")(plan.plan)
app.command("observe", short_help="What a live vLLM server is doing, from its /metrics.")(observe.observe)
app.add_typer(data.app, name="data", short_help="The measurements behind the predictions: coverage and plots.")
app.command("sweep", short_help="Measure a grid of engines and traffic, for fitting the cost model.")(sweep.sweep)
app.command("train", short_help="Rebuild the models from measured tables, yours among them.")(train.train)
app.command("evaluate", short_help="How far off predictions are where no fit has looked.")(evaluate.evaluate)
app.command("serve", short_help="The same as an HTTP service, which keeps what it answered.")(serve.serve)
app.command("worker", short_help="Runs the profile jobs that the service queues.")(worker.worker)
app.add_typer(keys.app, name="keys", short_help="API keys of the service.")
app.add_typer(database.app, name="database", short_help="The database of what the service answered.")


def _print_version(wanted: bool) -> None:
    if wanted:
        from api.version import specworth_version

        typer.echo(f"specworth {specworth_version()}")
        raise typer.Exit


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback behind an error.")] = False,
) -> None:
    """Options that stand before the command."""


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns its exit code and never raises."""
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"] or ["--help"]
    _tolerate_narrow_encodings()
    try:
        parsed: Any = app(arguments, standalone_mode=False, prog_name="specworth")
        code = parsed() if callable(parsed) else int(parsed or 0)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _nobody_reads()
    except KeyboardInterrupt:
        return 130
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else 1
    except Exception as error:
        if debug:
            import traceback

            traceback.print_exc()
        code, line = _told(error)
        try:
            print(f"specworth: {line}", file=sys.stderr)
        except BrokenPipeError:
            return _nobody_reads()
        return code


def _told(error: Exception) -> tuple[int, str]:
    """The exit code of an error and its one line."""
    format_message = getattr(error, "format_message", None)  # Typer's usage errors, whichever Click it carries
    if callable(format_message):
        command = getattr(getattr(error, "ctx", None), "command_path", "specworth")
        message = " ".join(str(format_message()).split()).rstrip(".").replace("Input should be", "expected")
        return 2, f"{message}; see {command} --help"
    if type(error).__name__ == "Abort":
        return 130, "stopped"

    from profiler.errors import InputError, SpecworthError

    if isinstance(error, SpecworthError):
        from api.commands.request import in_options

        return (2 if isinstance(error, InputError) else 1), in_options(error)
    if isinstance(error, OSError) and error.filename is not None:
        return 1, f"{error.filename}: {(error.strerror or str(error)).lower()}"
    what = " ".join(str(error).split())[:200]
    return 1, f"unexpected failure ({type(error).__name__}: {what}); the same command with --debug shows where"


def _tolerate_narrow_encodings() -> None:
    """Have characters that the terminal's encoding lacks replaced instead of failing on them."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _nobody_reads() -> int:
    """Keep the interpreter from complaining at exit that its output is closed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    return 141


if __name__ == "__main__":
    main()
