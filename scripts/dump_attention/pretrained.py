"""Models of Hugging Face that lie on this disk, run on a text. Nothing is fetched."""

import inspect
import os
import sys

import torch

from .errors import DumpError


def read_text(text):
    """The text of --text; that on standard input if it is "-", without its last line break."""
    if text == "-":
        try:
            text = sys.stdin.buffer.read().decode().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise DumpError(f"--text -: standard input is not UTF-8: {error}") from error
    if not text.strip():
        raise DumpError("--text: the text is empty", 2)
    return text


def run(what, text, attention, recorder):
    """Loads a model, in float32, and runs it on a text; returns its tokenizer. `attention` is what
    transformers calls attn_implementation."""
    library = _library()
    config, tokenizer = _config(library, what), _loaded(library, "AutoTokenizer", what)
    encoded = tokenizer(text, return_tensors="pt")
    ids = encoded["input_ids"]
    if not ids.numel():
        raise DumpError("--text: the tokenizer makes no tokens of it")
    model = _loaded(library, "AutoModel", what, attn_implementation=attention).float().eval()
    count, limit = ids.shape[-1], _positions(model, config)
    if limit is not None and count > limit:
        raise DumpError(f"--text: it has {count} tokens, and {what} has positions for {limit}")
    taken = inspect.signature(model.forward).parameters
    given = {name: encoded[name] for name in encoded if name in taken}
    if "use_cache" in taken:
        given["use_cache"] = False
    if getattr(config, "is_encoder_decoder", False):
        given["decoder_input_ids"] = _behind_start(ids, config)
    recorder.about = {"text_length": count, "model_attention": attention}
    try:
        with torch.no_grad():
            model(**given)
    except DumpError:
        raise
    except Exception as error:
        raise DumpError(f"--model {what}: {type(model).__name__} failed on the text: "
                        f"{_in_short(error)}") from error
    return tokenizer


def _library():
    # Read when it is imported.
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    try:
        import transformers  # pylint: disable=import-outside-toplevel
        return transformers
    except ImportError as missing:
        raise DumpError(f"{missing}: --model needs transformers", 2,
                        "python3 -m pip install transformers; or run dump-attention with the "
                        "Python that has it: PYTHON dump-attention …") from missing


def _config(library, what):
    if os.path.exists(what):
        if not os.path.isfile(os.path.join(what, "config.json")):
            raise DumpError(f"--model {what}: it is no model of Hugging Face, as it is no folder "
                            "with a config.json")
        return _loaded(library, "AutoConfig", what)
    try:
        return _loaded(library, "AutoConfig", what)
    except DumpError as error:
        if not isinstance(error.__cause__, OSError):
            raise
        raise DumpError(f"--model {what}: there is no such folder, and no model of this name in "
                        "the cache of Hugging Face on this disk") from error


def _loaded(library, kind, what, **more):
    try:
        return getattr(library, kind).from_pretrained(what, local_files_only=True,
                                                      trust_remote_code=False, **more)
    except Exception as error:
        part = {"AutoTokenizer": "its tokenizer", "AutoConfig": "its configuration"}.get(kind, "it")
        raise DumpError(f"--model {what}: {part} cannot be loaded: {_in_short(error)}") from error


def _in_short(error):
    """The class and the first line of an error."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[:1]])


def _positions(model, config):
    """How many tokens the model has positions for; None if there is no limit."""
    parts = config, getattr(config, "text_config", None)
    limits = [getattr(part, "max_position_embeddings", None) for part in parts]
    for name, table in model.named_modules():
        if isinstance(table, torch.nn.Embedding) and name.endswith("position_embeddings"):
            # RoBERTa counts from behind the place of the padding.
            padding = getattr(table, "padding_idx", None)
            limits.append(table.num_embeddings - (0 if padding is None else padding + 1))
    return min((limit for limit in limits if isinstance(limit, int) and limit > 0), default=None)


def _behind_start(ids, config):
    """What a decoder reads of a text: its tokens but the last one, behind the start token."""
    start = next((value for value in (getattr(config, f"{name}_token_id", None) for name in (
        "decoder_start", "bos", "pad")) if value is not None), 0)
    return torch.cat([torch.full_like(ids[:, :1], start), ids[:, :-1]], -1)
