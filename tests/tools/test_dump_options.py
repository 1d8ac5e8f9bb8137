"""dump-attention as a module: tokens and tokenizers, chosen layers and calls, what is refused."""

import unittest

import numpy as np

from torch_dumps import WITHOUT_TORCH, DumpTest, SomethingRuns, recording  # noqa: F401
from dump_attention import DumpError

if not WITHOUT_TORCH:
    import torch
    from torch import nn


class Tokens(DumpTest):

    class Model(nn.Module if not WITHOUT_TORCH else object):
        """A Transformer: an encoder and a decoder with words and places."""

        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(40, 16), nn.Embedding(20, 16)
            self.both = nn.Transformer(16, 2, 1, 1, 16, batch_first=True)

        def embed(self, ids):
            return self.places(torch.arange(ids.shape[1])[None]) + self.words(ids)

        def forward(self, ids, decoder_ids, pad=None):
            return self.both(self.embed(ids), self.embed(decoder_ids), src_key_padding_mask=pad)

    class Tokenizer:
        def convert_ids_to_tokens(self, ids):
            return [f"wört{one}" for one in ids]

    def test_each_attention_has_its_own(self):
        model = self.Model().eval()
        for lengths in ((7, 5), (6, 6)):
            one, two = (torch.randint(0, 40, (2, n)) for n in lengths)
            with self.subTest(lengths=lengths):
                self.record(model, one, two, dump={"tokenizer": self.Tokenizer()})
                for layer, ids in [("encoder.layers.0.self_attn", one), ("decoder.layers.0.self_attn", two),
                                   ("decoder.layers.0.multihead_attn", one)]:
                    group = f"both.{layer}"
                    np.testing.assert_array_equal(self.values(group, "token_ids"), ids)
                    words = [[f"wört{n}" for n in row] for row in ids.tolist()]
                    stored = self.values(group, "tokens")
                    self.assertEqual([[w.decode() for w in row] for row in stored], words)
                stats = self.stats("dump.h5:/both.encoder.layers.0.self_attn", "--scheme=unas")
                self.assertIn(stats["unas"]["lowest"][0]["key"], [w for row in words for w in row] +
                              [f"wört{n}" for n in one.flatten().tolist()])

    def test_kinds_of_tokenizers(self):
        class Pieces:
            def decode(self, ids):
                return "".join(f"<{one}>" for one in ids)

        words = [f"<{n}>" for n in range(40)]
        ids = torch.tensor([[3, 1, 4], [1, 5, 9]])
        model = self.Model().eval()
        for tokenizer in (words, dict(enumerate(words)), {w: n for n, w in enumerate(words)}, Pieces(),
                          Pieces().decode):
            with self.subTest(kind=type(tokenizer).__name__):
                self.record(model, ids, ids, dump={"tokenizer": tokenizer})
                stored = self.values("both.encoder.layers.0.self_attn", "tokens")
                self.assertEqual(stored.tolist(), [[b"<3>", b"<1>", b"<4>"], [b"<1>", b"<5>", b"<9>"]])
        for tokenizer, says in ((words[:4], "no string for an id"), (3, "names no tokens")):
            with self.assertRaisesRegex(DumpError, says):
                self.record(model, ids, ids, dump={"tokenizer": tokenizer})

    def test_given_strings(self):
        model = self.Model().eval()
        one, two = torch.randint(0, 40, (2, 4)), torch.randint(0, 40, (2, 3))
        self.record(model, one, two, dump={"tokens": list("abcd")})
        self.assertEqual(self.values("both.encoder.layers.0.self_attn", "tokens").tolist(),
                         [b"a", b"b", b"c", b"d"])
        self.assertNotIn("tokens", self.names("both.decoder.layers.0.self_attn"))
        self.record(model, one, two, dump={"tokens": [list("abc"), list("def")]})
        self.assertEqual(self.values("both.decoder.layers.0.self_attn", "tokens").tolist(),
                         [[b"a", b"b", b"c"], [b"d", b"e", b"f"]])
        with self.assertRaisesRegex(DumpError, "no layer has as many keys"):
            self.record(model, one, two, dump={"tokens": list("abcde")})

    def test_a_model_of_the_older_order(self):
        class Older(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.Embedding(40, 16)
                self.layer = nn.MultiheadAttention(16, 2)

            def forward(self, ids):
                x = self.words(ids)
                return self.layer(x, x, x)[0]

        ids = torch.randint(0, 40, (5, 3))  # (L, B)
        self.record(Older(), ids)
        np.testing.assert_array_equal(self.values("layer", "token_ids"), ids.T)


class Options(DumpTest):

    def test_refusals(self):
        for name in ("nothing", "no.such.module:f", f"{__name__}:no_such_function", ":", "torch:"):
            with self.subTest(name=name), self.assertRaisesRegex(DumpError, "module:function"):
                with recording(self.path, functions=[name]):
                    pass
        with self.assertRaisesRegex(DumpError, "no attention was called"):
            with recording(self.path):
                pass
        with self.assertRaises(ZeroDivisionError):
            with recording(self.path):
                raise ZeroDivisionError
        module = nn.MultiheadAttention(8, 2)
        for options, says in [({"layers": "1-0"}, "--layers: 1-0 is empty"), ({"heads": "x"}, "--heads: 'x'"),
                              ({"dtype": "f8"}, "--dtype"), ({"compress": "zstd"}, "--compress"),
                              ({"layers": "other.*"}, "leave out all of attention")]:
            with self.subTest(says), self.assertRaisesRegex(DumpError, says) as caught:
                x = torch.randn(4, 1, 8)
                with recording(self.path, module, **options):
                    module(x, x, x)
            self.assertEqual(caught.exception.status, 2)
        for name in ("dump.npz", "dump.safetensors"):
            with self.assertRaisesRegex(DumpError, "only HDF5"), recording(self.folder / name):
                pass
        self.assertEqual(list(self.folder.iterdir()), [])
        self.path.write_text("mine")
        with self.assertRaisesRegex(DumpError, "exists") as caught, recording(self.path):
            pass
        self.assertEqual(caught.exception.status, 5)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["dump.h5"])
        self.assertEqual(self.path.read_text(), "mine")

    def test_layers_and_calls(self):
        model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 8, batch_first=True), 4).eval()
        for layers, calls, expected in [("0,2-3", "1", ["0", "2", "3"]), ([1], "2", ["1@2"]),
                                        ("layers.3.*", None, ["3", "3@2"]), (3, 2, ["3@2"])]:
            with self.subTest(layers=layers), torch.no_grad():
                with recording(self.path, model, layers=layers, calls=calls, force=True):
                    model(torch.randn(1, 3, 8))
                    model(torch.randn(1, 3, 8))
                self.assertEqual(self.groups(), [f"layers.{n[0]}.self_attn{n[1:]}" for n in expected])


if __name__ == "__main__":
    unittest.main()
