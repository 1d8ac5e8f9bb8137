"""Records the inputs of a PyTorch model's attention into a bundle, one group per layer.

    import dump_attention
    with torch.no_grad(), dump_attention.recording("dec.h5", model, tokenizer=tokenizer):
        model(ids)

    explain-away-stats dec.h5

`dump-attention --module-path` prints the folder that PYTHONPATH needs. Importing this module loads
neither torch nor h5py; recording() does.
"""

from pathlib import Path

# In the source tree, the package attnkit has the modules that both share. Installed, they lie here.
__path__.append(str(Path(__file__).resolve().parents[2] / "lib/python/attnkit/_recording"))

from .errors import DumpError  # noqa: E402  pylint: disable=wrong-import-position

__all__ = ["DumpError", "recording"]


def recording(path, model=None, *, tokenizer=None, tokens=None, inputs=False, layers=None,
              heads=None, calls=None, function=(), functions=(), dtype=None, compress=None,
              name=None, force=False):
    """A context in which the attention of `model` (None: of every model) is recorded into a new
    bundle at `path`. Its value has `calls`, the number of calls by name of layer.

    tokenizer  what turns token ids into strings, for the dataset `tokens`: an object with
               convert_ids_to_tokens, id_to_token or decode, a list of all words, a dictionary from
               words to ids, or a function of a list of ids
    tokens     the strings themselves: a list for all sequences, or a list for each
    inputs     also records x, y, wq, wk, wv, bq, bk, bv, for --from projection
    layers     which layers: "0,3-5" or "decoder.*", or a list of numbers and patterns
    heads      which query heads: "0,2-3", or a list of numbers
    calls      which calls of each layer, counted from 1
    function   the name, or a list of names, of further functions to record, such as
               "package.module:function" or "package.module:Class.method". They take query, key and
               value first, or under these names or q, k, v, of (B, H, L, d) or (B, L, H, d);
               attn_mask, is_causal and scale have the meaning that scaled_dot_product_attention
               gives them; softcap=C makes C·tanh(s/C) of a score s
    functions  the same
    dtype      "f16" or "f32": the type of numbers in the file; default: as in the model, but
               float32 for bfloat16
    compress   "gzip" or "gzip:N"
    name       the model's name, kept as an attribute; default: what its configuration says
    force      replaces an existing file

    Raises DumpError if nothing was recorded, a call cannot be recorded, or the file cannot be
    written. On any exception no file is left behind."""
    from .recorder import recording as start  # pylint: disable=import-outside-toplevel
    return start(path, model, tokenizer=tokenizer, tokens=tokens, inputs=inputs, layers=layers,
                 heads=heads, calls=calls, functions=_names(function) + _names(functions),
                 dtype=dtype, compress=compress, name=name, force=force)


def _names(given):
    return [given] if isinstance(given, str) else list(given or ())
