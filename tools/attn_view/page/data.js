// Decodes the data of the page. It computes nothing but the mixture of stored numbers that is called hnas.
"use strict";

const view = {};

(function () {
  const kinds = { float64: Float64Array, int32: Int32Array, float16: Uint16Array };

  function decoded(array) {
    const text = atob(array.base64);
    const bytes = new Uint8Array(text.length);
    for (let n = 0; n < bytes.length; ++n) {
      bytes[n] = text.charCodeAt(n);
    }
    return new kinds[array.type](bytes.buffer);
  }

  // The number whose float16 bits are given, which is from 0 to 1, as weights are.
  function float16(bits) {
    const exponent = bits >> 10;
    const fraction = bits & 1023;
    return exponent === 0 ? fraction * Math.pow(2, -24) : (1024 + fraction) * Math.pow(2, exponent - 25);
  }

  const table = Float32Array.from({ length: 0x3c01 }, (_, bits) => float16(bits));

  // u times dnas plus 1 - u times unas; u = 0 gives unas and u = 1 dnas, to the last bit.
  function mixture(u, unas, dnas) {
    return unas.map((value, n) => u * dnas[n] + (1 - u) * value);
  }

  class Head {
    constructor(raw, group, number, tokens, severalSequences) {
      const column = raw.head === null ? "" : `head ${raw.head}`; // of the overview
      const batch = severalSequences ? `sequence ${raw.batch.join(",")}` : "";
      Object.assign(this, {
        number, group, raw, queries: raw.queries, keys: raw.keys, causal: raw.causal,
        row: [group, batch].filter(Boolean).join(", "), // the line of the overview
        column, label: [group, batch, column].filter(Boolean).join(", ") || "the only head",
        keyTokens: raw.tokens === null ? null : tokens[raw.tokens],
        queryTokens: raw.query_tokens === null ? null : tokens[raw.query_tokens],
        oneSequence: raw.tokens === raw.query_tokens && raw.queries === raw.keys,
        hasWeights: Boolean(raw.schemes.unas.weights && raw.schemes.dnas.weights),
        cache: {},
      });
    }

    array(name, source) {
      if (!(name in this.cache)) {
        this.cache[name] = decoded(source);
      }
      return this.cache[name];
    }

    queriesOfKey() {
      return this.array("n", this.raw.queries_of_key);
    }

    // The column sums under unas, dnas or hnas, which is the mixture with the share u.
    columnSums(scheme, u) {
      return scheme === "hnas"
        ? mixture(u, this.columnSums("unas"), this.columnSums("dnas"))
        : this.array(`c ${scheme}`, this.raw.schemes[scheme].col_sum);
    }

    // The weights of a query (axis "row") or of a key (axis "column").
    weights(scheme, u, axis, index) {
      if (scheme === "hnas") {
        return mixture(u, this.weights("unas", u, axis, index), this.weights("dnas", u, axis, index));
      }
      const bits = this.array(`w ${scheme}`, this.raw.schemes[scheme].weights);
      const row = axis === "row";
      const values = new Array(row ? this.keys : this.queries);
      for (let n = 0; n < values.length; ++n) {
        values[n] = table[bits[row ? index * this.keys + n : n * this.keys + index]];
      }
      return values;
    }

    // What a key is: "masked" (no query may attend to it), "few" (too few queries for a verdict), "ignored" or "".
    verdict(key, sums) {
      const n = this.queriesOfKey()[key];
      if (n === 0) {
        return "masked";
      }
      if (n < this.raw.min_queries) {
        return "few";
      }
      return sums[key] < view.epsilon ? "ignored" : "";
    }

    countedKeys() {
      const n = this.queriesOfKey();
      return Array.from(n.keys()).filter((key) => n[key] > 0 && n[key] >= this.raw.min_queries);
    }
  }

  view.schemes = ["unas", "hnas", "dnas"];

  view.load = function (data) {
    Object.assign(view, { title: data.title, about: data.about, epsilon: data.epsilon, leftOut: data.left_out, heads: [] });
    const sequences = new Set([].concat(...data.groups.map((group) => group.heads.map((raw) => String(raw.batch)))));
    for (const group of data.groups) {
      for (const raw of group.heads) {
        view.heads.push(new Head(raw, group.name, view.heads.length, data.tokens, sequences.size > 1));
      }
    }
  };
})();
