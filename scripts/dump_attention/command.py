"""The command dump-attention: runs a script or a model, and records its attention."""

import argparse
import os
import runpy
import shlex
import signal
import sys
import traceback
import types
import warnings

from . import version
from .documents import completion, man_page
from .errors import DumpError, DumpWarning, Unseen, without_library

TOOL = "dump-attention"
ABOUT = """\
Runs a PyTorch model, or a Python script that runs one, and records the inputs of its attention.

Writes a bundle, which is an HDF5 file, with a group for each layer. A group holds the queries, keys
and values by head, q, k and v of (B, H, L, d), as attention sees them: after projections, rotary
positions and the like. It also holds what else the scores depend on: lengths of padded sequences
(key_length, query_length and, for padding on the left, key_start, query_start), mask, bias, sink,
rel_bias, and the attributes attn_causal, attn_window, attn_scale, attn_softcap. Token ids are kept
as token_ids, their strings as tokens. Groups bear the names of modules; the second call of a layer
is NAME@2.

Records nn.MultiheadAttention, scaled_dot_product_attention of PyTorch 2, models of Hugging Face in
any implementation of attention, and functions that you name. A warning names classes whose
attention ran unseen. Needs Python with torch and h5py, and transformers for --model. For each call,
some queries are computed anew from what was recorded; a warning says if the model's output
differs."""
EXAMPLES = [
    ("dump-attention -o dec.h5 infer.py --prompt 'the cat sat'",
     "Records what infer.py runs; --prompt is an option of infer.py."),
    ("dump-attention -o dec.h5 --model ./my-llama --text 'the cat sat'",
     "Runs a model of Hugging Face that lies in a folder, without a script."),
    ("explain-away-stats dec.h5", "Then: which tokens are ignored, by layer and head."),
    ("dump-attention -o dec.h5 --layers 0,3-5 --inputs -m mymodel.evaluate",
     "Some layers, with the inputs of the projections."),
]
STATUSES = [(0, "success"), (2, "the command line is wrong"),
            (3, "the script or model failed, or its attention cannot be recorded"),
            (5, "the output exists already, or cannot be written")]


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        _end(DumpError(message, 2, f"{TOOL} --help"))


def _end(error):
    print(f"{TOOL}: error: {error}", file=sys.stderr)
    if error.hint:
        print(f"{TOOL}: hint: {error.hint}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    if error.status == 5:
        # HDF5 tries to write once more when Python ends, and crashes if that fails again.
        os._exit(error.status)  # pylint: disable=protected-access
    sys.exit(error.status)


def parser():
    """All options; their help is also in the manual page."""
    made = _Parser(prog=TOOL, description=ABOUT, allow_abbrev=False, add_help=False,
                   usage=f"{TOOL} [options] -o FILE SCRIPT [ARGUMENT...]\n"
                         f"       {TOOL} [options] -o FILE -m MODULE [ARGUMENT...]\n"
                         f"       {TOOL} [options] -o FILE --model MODEL --text TEXT",
                   formatter_class=argparse.RawDescriptionHelpFormatter,
                   epilog="\n".join(
                       ["Examples:", *(f"  {line}\n      {text}" for line, text in EXAMPLES), "",
                        "Exit status:", *(f"  {number}  {text}" for number, text in STATUSES)]))
    add = made.add_argument_group("What is run").add_argument
    add("-m", dest="module", metavar="MODULE",
        help="run this module, as python3 -m does, in place of a SCRIPT. What follows are its "
             "arguments")
    add("--model", metavar="MODEL",
        help="run this model of Hugging Face: a folder, or a name in the cache on this disk. "
             "Nothing is fetched, and no code in the folder is run. It runs in float32, without a "
             "cache of keys; a decoder behind an encoder reads the same text, behind its start "
             "token. Needs transformers")
    add("--text", metavar="TEXT",
        help="what the model reads. - is standard input, without its last line break. The "
             "attribute text_length is the number of tokens")
    add("--attention", metavar="NAME",
        help="how the model computes attention, as attn_implementation of transformers, such as "
             "sdpa; kept as the attribute model_attention. Default: eager, and sdpa where eager "
             "attention cannot be recorded")
    add("--function", action="append", default=[], metavar="MODULE:NAME",
        help="also record this function of query, key and value, of (B, H, L, d) or (B, L, H, d); "
             "may be repeated. NAME may be CLASS.METHOD; __main__:NAME is a function of the "
             "script. attn_mask, is_causal and scale have the meaning that "
             "scaled_dot_product_attention gives them; softcap=C makes C*tanh(s/C) of a score s")
    add = made.add_argument_group("What is recorded").add_argument
    add("--layers", metavar="LIST",
        help="these layers, such as 0,3-5 or 'decoder.*'. The number of a layer is the first "
             "number in its name. Default: all")
    add("--heads", metavar="LIST", help="these query heads, such as 0,2-3. Default: all")
    add("--calls", metavar="LIST",
        help="these calls of each layer, counted from 1. Default: all")
    add("--inputs", action="store_true",
        help="also record x, y, wq, wk, wv, bq, bk, bv: the inputs and projections of the layer, "
             "for --from projection; and wo, bo of nn.MultiheadAttention and T5, for --join")
    add("--tokenizer", metavar="WHAT",
        help="what names the tokens: vocab.txt (one token a line), vocab.json or tokenizer.json, a "
             "variable of the script, or MODULE:NAME. Default: the only variable of the script "
             "that is a tokenizer of Hugging Face")
    add("--tokens", metavar="FILE",
        help="names of the tokens, one a line, the same for all sequences")
    add("--name", metavar="TEXT", help="name of the model, kept as the attribute model_name")
    add = made.add_argument_group("Output").add_argument
    add("-o", "--output", metavar="FILE", help="bundle to write")
    add("--force", action="store_true", help="replace an existing FILE")
    add("--dtype", metavar="TYPE",
        help="f16 or f32: type of the numbers. Default: as in the model, float32 for bfloat16")
    add("--compress", metavar="gzip[:N]",
        help="deflate datasets of 64 KiB and more at level N, from 1 (fast) to 9 (small), by "
             "default 4")
    add("-q", "--quiet", action="store_true", help="print errors only")
    add("-h", "--help", action="help", help="print this text and exit")
    add("--man", action="store_true", help="print the manual page (roff) and exit")
    add("--completion", metavar="SHELL",
        help="print the completion script for bash, zsh or fish and exit")
    add("--module-path", action="store_true",
        help="print the folder of the Python module dump_attention, for PYTHONPATH, and exit")
    add("--version", action="store_true", help="print the version and exit")
    return made


def _take_apart(made, words):
    """(words of the options, SCRIPT and the rest). What follows MODULE or SCRIPT is not ours."""
    taking = {name for action in made._actions  # pylint: disable=protected-access
              if action.nargs is None for name in action.option_strings}
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":
            return words[:place], words[place + 1:]
        if not word.startswith("-") or word == "-":
            return words[:place], words[place:]
        place += 2 if word in taking else 1
        if word == "-m":
            return words[:place], words[place:]
        if word.startswith("-m") and not word.startswith("--"):
            return words[:place], words[place:]
    return words, []


class _Stopped(BaseException):
    """A signal that ends the process."""


def _stop(number, _):
    raise _Stopped(number)


def main(words, home, write_bytecode_before=False):
    """Runs the command with these arguments; returns the exit status. `home`: the folder of the
    module."""
    made = parser()
    own, rest = _take_apart(made, words)
    options = made.parse_args(own)
    options.script = rest.pop(0) if options.module is None and rest else None
    options.arguments = rest
    if options.man:
        print(man_page(TOOL, made, ABOUT, EXAMPLES, STATUSES, version.read()))
        return 0
    if options.completion is not None:
        text = completion(options.completion, TOOL, made)
        if text is None:
            made.error(f"--completion {options.completion}: expected bash, zsh or fish")
        print(text)
        return 0
    if options.module_path:
        print(home)
        return 0
    if options.version:
        print(f"{TOOL} {version.read()}")
        return 0
    if options.output is None:
        made.error("-o FILE is needed")
    if options.output == "-":
        made.error("-o -: scripts print there; name a file")
    if options.tokens is not None and options.tokenizer is not None:
        made.error("--tokens and --tokenizer: one of them is enough")
    if options.model is not None:
        if options.script is not None or options.module is not None:
            made.error(f"--model and {options.script or '-m'}: one of them can be run")
        if options.text is None:
            made.error("--model: --text TEXT is needed")
        if options.tokenizer is not None:
            made.error("--tokenizer: a --model has its own")
    elif options.text is not None or options.attention is not None:
        made.error(f"--{'attention' if options.text is None else 'text'} is for a --model")
    elif options.module is None and options.script is None:
        made.error("SCRIPT is needed")
    before = {number: signal.signal(number, _stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return _record(options, shlex.join([TOOL, *words]), write_bytecode_before)
    except DumpError as error:
        return _end(error)
    except _Stopped as stopped:
        number, = stopped.args
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return 128 + number
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _record(options, command, dont_write_bytecode):
    script = options.script
    if script is not None and not os.path.isfile(script):
        raise DumpError(f"{script}: there is no such script", 3)
    if options.model is None:
        # As Python does for a script, and for a module. Its modules may hold the named functions.
        sys.path[0] = os.getcwd() if script is None else os.path.dirname(os.path.abspath(script))
    show = warnings.showwarning

    def shown(message, category, *where, **more):
        if not issubclass(category, DumpWarning):
            show(message, category, *where, **more)
        elif not options.quiet:
            print(f"{TOOL}: warning: {message}", file=sys.stderr)

    warnings.showwarning = shown
    from . import recording  # pylint: disable=import-outside-toplevel
    tokens = None
    if options.tokens is not None or options.tokenizer is not None:
        _need_torch()
        from .tokens import find_tokenizer, read_lines  # pylint: disable=import-outside-toplevel
        tokens = read_lines(options.tokens) if options.tokens is not None else None
        if options.tokenizer is not None and os.path.isfile(options.tokenizer):
            find_tokenizer(options.tokenizer, {})  # before the model runs

    def record(run):
        """Records run(recorder), which returns a tokenizer or None."""
        with recording(options.output, tokens=tokens, inputs=options.inputs, layers=options.layers,
                       heads=options.heads, calls=options.calls, function=options.function,
                       dtype=options.dtype, compress=options.compress, name=options.name,
                       force=options.force) as recorder:
            recorder.command = command
            sys.dont_write_bytecode = dont_write_bytecode
            tokenizer = run(recorder)
            if tokens is None:
                recorder.tokenizer = tokenizer
        return recorder

    def run_script(_):
        names = _run(options)
        from .tokens import find_tokenizer  # pylint: disable=import-outside-toplevel
        return find_tokenizer(options.tokenizer, names)

    recorder = record(run_script) if options.model is None else _record_model(options, record)
    if not options.quiet:
        count = sum(recorder.calls.values())
        print(f"{TOOL}: {count} call{'s' * (count != 1)} of {len(recorder.calls)} "
              f"layer{'s' * (len(recorder.calls) != 1)}, {recorder.bytes / 1e6:.3g} MB written in "
              f"{recorder.seconds:.2g} s -> {options.output}", file=sys.stderr)
        if not recorder.groups_with_tokens:
            print(f"{TOOL}: the tokens have no names; --tokenizer or --tokens gives them",
                  file=sys.stderr)
    return 0


def _need_torch():
    try:
        import torch  # noqa: F401  pylint: disable=import-outside-toplevel,unused-import
    except ImportError as missing:
        raise without_library(missing) from missing


def _record_model(options, record):
    """Records a model with the attention that was asked for; else with eager attention, and where
    that is not seen, with scaled_dot_product_attention."""
    _need_torch()
    from . import pretrained  # pylint: disable=import-outside-toplevel
    text = pretrained.read_text(options.text)

    def record_with(attention):
        return record(lambda recorder: pretrained.run(options.model, text, attention, recorder))

    try:
        return record_with(options.attention or "eager")
    except Unseen as unseen:
        if options.attention is not None:
            raise
        try:
            recorder = record_with("sdpa")
        except DumpError as error:
            raise error if error.status != 3 else DumpError(
                unseen, 3, "name a function that it calls (--function MODULE:CLASS.METHOD)")
    if not options.quiet:
        print(f"{TOOL}: recorded with --attention sdpa, as eager attention of this model is not "
              "seen", file=sys.stderr)
    return recorder


def _run(options):
    """Runs the script or module; returns its variables. Its failures become one line, after
    Python's own account of them."""
    what = options.module or options.script
    sys.argv = [what, *options.arguments]
    names = {}
    try:
        if options.module:
            return runpy.run_module(options.module, run_name="__main__", alter_sys=True)
        # Unlike runpy, so that the variables are known even if the script ends with sys.exit(0).
        main_module = types.ModuleType("__main__")
        main_module.__file__ = options.script
        names = vars(main_module)
        sys.modules["__main__"] = main_module
        with open(options.script, "rb") as file:
            code = compile(file.read(), options.script, "exec")
        exec(code, names)  # pylint: disable=exec-used
        return names
    except SystemExit as leaving:
        if leaving.code in (None, 0):
            return names
        if isinstance(leaving.code, str):
            print(leaving.code, file=sys.stderr)
        raise DumpError(f"{what} ended with status "
                        f"{leaving.code if isinstance(leaving.code, int) else 1}; nothing was "
                        "written") from leaving
    except DumpError:
        raise
    except Exception as error:
        # Without the frames of this module, which precede those of the script.
        places = error.__traceback__.tb_next
        traceback.print_exception(error.with_traceback(places), chain=True)
        raise DumpError(f"{what} failed: {type(error).__name__}: {error}; nothing was "
                        "written") from error
