"""EA App. A: a layer of 3 heads of width 4 over inputs of 12 axes. `make` writes, for each head h, head<h>.h5 with
q = Q_h x, k = K_h x, v = W_h x, and wide<h>.h5 with q zero but for the head's rows, and k = v = K x of all heads.
`compare` holds W_h K^-1 times the output of the latter against that of the former."""

import sys

from plain import *

heads, width = 3, 4
random = np.random.default_rng(41)
query, key, values = random.normal(size=(3, heads, width, heads * width)) / np.sqrt(heads * width)
x = random.normal(size=(10, heads * width))
stacked = key.reshape(heads * width, heads * width)

if sys.argv[1] == "make":
    for h in range(heads):
        save(f"head{h}.h5", q=x @ query[h].T, k=x @ key[h].T, v=x @ values[h].T)
        wide = np.zeros((len(x), heads * width))
        wide[:, h * width:(h + 1) * width] = x @ query[h].T
        save(f"wide{h}.h5", q=wide, k=x @ stacked.T, v=x @ stacked.T)
else:
    report(error=max(
        farthest(load(f"{scheme}-full{h}.h5", "out") @ np.linalg.inv(stacked).T @ values[h].T,
                 load(f"{scheme}-narrow{h}.h5", "out"))
        for scheme in ("unas", "dnas") for h in range(heads)))
