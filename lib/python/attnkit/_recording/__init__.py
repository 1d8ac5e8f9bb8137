"""How calls of attention in a PyTorch model are found and read.

`attnkit.torch.observe` and the command dump-attention share these modules. They need PyTorch, and the
module `bundle` needs h5py; none of them needs the compiled part of attnkit.
"""
