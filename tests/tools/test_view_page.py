"""The page of attn-view in Chromium: what it shows equals the bundle, the keyboard suffices, and nothing in it runs or leaves it."""

import json
import re
import shutil
import unittest
from xml.etree import ElementTree

import numpy as np

from attn import ToolTest, require_program
from view_sample import HOSTILE

try:
    from selenium import webdriver
    from selenium.common.exceptions import NoAlertPresentException
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select
except ImportError:  # then require_program has skipped, or setUp does
    webdriver = None

HEADS, LENGTH, DEPTH = 3, 40, 8
NUMBERS = 20  # of each kind that a test compares, in each head
IGNORED = 5  # the key that every head ignores
SCHEMES = ("unas", "dnas")
HALF = 1e-3  # relative, of a weight in float16
TINY = 2.0**-14  # below, float16 has fewer digits
WORDS = [f"word{n}" for n in range(LENGTH)]


def vectors(seed=1, **more):
    q, k, v = np.random.default_rng(seed).normal(size=(3, HEADS, LENGTH, DEPTH)).astype(np.float32)
    q[..., 0] = 4
    k[:, IGNORED, 0] = -30
    return {"q": q, "k": k, "v": v, "tokens": np.array(WORDS, object), **more}


def contrast(first, second):
    """The contrast of two colours, "rgb(r, g, b)", by WCAG 2."""
    def luminance(colour):
        x = np.array(re.findall(r"[\d.]+", colour)[:3], float) / 255
        return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722]
    low, high = sorted(map(luminance, (first, second)))
    return (high + 0.05) / (low + 0.05)


class Page(ToolTest):

    @classmethod
    def setUpClass(cls):
        cls.browser = None
        if webdriver and shutil.which("chromedriver") and shutil.which("chromium"):
            options = webdriver.ChromeOptions()
            for word in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
                options.add_argument(word)
            options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
            cls.browser = webdriver.Chrome(service=webdriver.chrome.service.Service(shutil.which("chromedriver")), options=options)

    @classmethod
    def tearDownClass(cls):
        if cls.browser:
            cls.browser.quit()

    def setUp(self):
        super().setUp()
        require_program(self, "chromium", "browser")
        require_program(self, "chromedriver", "browser")
        if not webdriver:
            self.skipTest("no module selenium (scripts/install-deps browser installs it)")

    def tearDown(self):
        if self.browser:
            self.assertEqual(self.browser.get_log("browser"), [])
            requests = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
            asked = {one["params"]["request"]["url"].split("#")[0] for one in requests if one["method"] == "Network.requestWillBeSent"}
            self.assertLessEqual({url for url in asked if not url.startswith(("data:", "blob:"))}, {self.address, "about:blank"})
        super().tearDown()

    def open(self, name, *options, state=""):
        self.run_tool("attn-view", name, *options, "--force", "-q", "-o", "view.html")
        self.address = (self.folder / "view.html").as_uri()
        self.browser.get("about:blank")
        self.browser.get(f"{self.address}#{state}")

    def all(self, selector, within=None):
        return (within or self.browser).find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector, within=None):
        return (within or self.browser).find_element(By.CSS_SELECTOR, selector)

    def run_script(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def wait(self, milliseconds=300):
        """Until the page has written its address, if no other time is given."""
        self.browser.execute_async_script("setTimeout(arguments[1], arguments[0])", milliseconds)

    def texts(self, selector):
        return self.run_script("return Array.from(document.querySelectorAll(arguments[0]), (one) => one.textContent)", selector)

    def text(self, selector):
        return self.one(selector).get_attribute("textContent")

    def choose(self, label, name):
        """Chooses from the list with this label."""
        Select(self.one("select", self.browser.find_element(By.XPATH, f"//label[contains(., '{label}')]"))).select_by_visible_text(name)

    def open_drawers(self):
        self.run_script("document.querySelectorAll('details').forEach((drawer) => { drawer.open = true; })")
        self.wait(50)  # until the drawers know

    def rows(self, caption):
        """The rows in view of the table whose caption begins so: the numbers behind the digits, or the texts."""
        return self.run_script("""
            const table = Array.from(document.querySelectorAll("table")).find((one) => one.caption.textContent.startsWith(arguments[0]));
            return Array.from(table.tBodies[0].rows).filter((row) => !row.classList.contains("gap")).map((row) =>
              Array.from(row.cells, (cell) => (cell.querySelector("data") || { value: cell.textContent }).value));""", caption)

    def set_slider(self, key, section="weights"):
        self.one(f"#{section} input[type=range]").send_keys(key)

    def test_statistics_are_exact(self):
        self.write("in.h5", **vectors())
        self.run_tool("explain-away-stats", "in.h5", "--only", "-q", "-o", "sums.h5")
        sums, stats = self.read("sums.h5"), self.stats("in.h5")
        self.open("in.h5")
        self.open_drawers()
        for number, row in enumerate(self.rows("3 heads")):
            self.assertEqual(row[0], f"head {number}")
            found = [float(x) for x in row[1:-1]]
            of = [stats[scheme]["heads"][number] for scheme in SCHEMES]
            n = sums["queries_of_key"][number]
            expected = [[one["explained_away"][0]["share"] for one in of], [one["col_sum"]["min"] for one in of],
                        [(sums[f"{scheme}_col_sum"][number] / n).min() for scheme in SCHEMES],
                        [one["row_entropy"]["mean"] for one in of], [one["first_key_share"] for one in of]]
            self.assertEqual(found, sum(expected, []))
        for head in range(HEADS):
            self.choose("Head", f"head {head}")
            rows = self.rows("40 tokens")
            self.assertGreaterEqual(len(rows), NUMBERS)
            for key, row in enumerate(rows[:NUMBERS]):
                self.assertEqual(row[:3], [str(key), WORDS[key], str(LENGTH)])
                c = [sums[f"{scheme}_col_sum"][head, key] for scheme in SCHEMES]
                self.assertEqual([float(row[3]), float(row[4]), float(row[7]), float(row[8])], [c[0], c[0] / LENGTH, c[1], c[1] / LENGTH])
                self.assertEqual(row[-1], "ignored" if c[0] < 1e-8 else "–")

    def test_weights(self):
        self.write("in.h5", **vectors())
        weights = {scheme: self.compute("in.h5", "--scheme", scheme, "--emit", "weights", "--only", "-q")["weights"] for scheme in SCHEMES}
        self.open("in.h5")
        for head in range(HEADS):
            self.choose("Head", f"head {head}")
            for token in (IGNORED, 17):
                self.run_script("document.querySelectorAll('.token[data-token]')[arguments[0]].click()", token)
                for caption, at in ((f"Whom “word{token}”", (head, token)),
                                    (f"Who attends to “word{token}”", (head, slice(None), token))):
                    rows = self.rows(caption)
                    self.assertGreaterEqual(len(rows), NUMBERS)
                    shown = np.array([[float(x) for x in row[1:]] for row in rows])
                    places = shown[:, 0].astype(int)
                    self.assertEqual([row[0] for row in rows], [WORDS[n] for n in places])
                    for column, scheme in ((1, "unas"), (3, "dnas")):
                        np.testing.assert_allclose(shown[:, column], weights[scheme][at][places], HALF, HALF * TINY)
                    np.testing.assert_allclose(shown[:, 2], 0.1 * shown[:, 3] + 0.9 * shown[:, 1], 1e-14)
                    self.assertEqual(list(shown[:, 1]), sorted(shown[:, 1], reverse=True))

    def test_slider_ends_at_unas_and_dnas(self):
        self.write("in.h5", **vectors())
        self.open("in.h5", state="scheme=hnas&key=17")
        self.open_drawers()
        for key, column in ((Keys.HOME, "unas"), (Keys.END, "dnas")):
            self.set_slider(key)
            for caption, first in (("Whom ", 2), ("Who attends", 2)):
                shown = np.array([row[first:] for row in self.rows(caption)])
                self.assertEqual(list(shown[:, 1]), list(shown[:, 0 if column == "unas" else 2]))
                self.assertNotEqual(list(shown[:, 0]), list(shown[:, 2]))
            sums = np.array([row[3:9:2] for row in self.rows("40 tokens")])
            self.assertEqual(list(sums[:, 1]), list(sums[:, 0 if column == "unas" else 2]))
            arcs = {scheme: self.texts(f"[data-scheme={scheme}] [data-place]") for scheme in ("unas", "hnas", "dnas")}
            self.assertTrue(arcs["unas"])
            self.assertEqual(arcs["hnas"], arcs[column])
        # One step before dnas is a mixture, and the ignored key is no longer ignored.
        self.set_slider(Keys.ARROW_LEFT)
        self.wait()
        self.assertIn("u=0.99", self.browser.current_url)
        self.assertEqual(self.all(".text .token.ignored"), [])

    def test_first_view_names_who_is_ignored(self):
        self.write("in.h5", **vectors())
        self.open("in.h5")
        finding = self.text("#findings")
        self.assertIn("Softmax (unas) ignores 3 of 120 tokens, in 3 of 3 heads. Doubly-normalised attention (dnas) ignores none.", finding)
        self.assertEqual(finding.count("ignores 1 of 40 tokens: word5"), HEADS)
        self.assertEqual([token.text for token in self.all(".text .token.ignored")], [WORDS[IGNORED]])
        self.assertIn("ignored", self.one(".text .token.ignored").accessible_name)
        self.assertLess(self.one("#findings .heads").rect["y"], 400)

    def test_words_explain_the_numbers(self):
        inputs = vectors()
        inputs["tokens"][9] = inputs["tokens"][IGNORED]
        inputs["k"][:, 9] = inputs["k"][:, IGNORED]
        self.write("in.h5", **inputs)
        self.open("in.h5")
        self.assertEqual([line.split()[0] for line in self.texts("#findings .schemes li")], ["unas", "dnas", "hnas"])
        self.assertRegex(self.text("#findings .heads li li"), r"\Aword5 2 tokens, at positions 5 and 9, c = [\d.e-]+ each\Z")
        # The weights of an ignored token are 0 in float16; its column sum is not.
        note = "Weights below 3e-8 are shown as 0."
        self.assertTrue(any(note in text for text in self.texts("#weights details > .quiet:not([hidden])")))
        self.assertIn("word5 at position 5, which has the least c of this head", self.text("#head .chosen"))
        self.run_script("document.querySelectorAll('.token[data-token]')[17].click()")
        self.assertEqual(self.texts("#weights details > .quiet:not([hidden])"), [])
        self.assertEqual(self.text("#head .chosen"), "Chosen: word17 at position 17.")
        # The slider is there where it changes something.
        slider = self.one("#head input[type=range]")
        self.assertFalse(slider.is_enabled())
        self.choose("Column sums under", "hnas (mixture)")
        self.assertTrue(slider.is_enabled())
        shown = self.run_script("return [0, 2.1e-12, 5e-4, 0.1, 0.9996, 1, null].map(view.percent)")
        self.assertEqual(shown, ["0%", "<0.1%", "0.1%", "10.0%", ">99.9%", "100%", "–"])

    def test_keyboard_alone(self):
        """From the start of the page to the weights of a token."""
        self.write("in.h5", **vectors())
        self.open("in.h5")
        focused = lambda: self.browser.switch_to.active_element
        for _ in range(40):
            focused().send_keys(Keys.TAB)
            if focused().get_attribute("role") == "option":
                break
        self.assertEqual(focused().text, WORDS[IGNORED])
        focused().send_keys(Keys.HOME)
        for _ in range(3):
            focused().send_keys(Keys.ARROW_RIGHT)
        self.assertRegex(self.text("#head .readout"), r"\Aword3 at position 3, under unas: c = [\d.e-]+, n = 40, c/n = ")
        focused().send_keys(Keys.ARROW_DOWN)
        below = focused().text
        self.assertNotEqual(below, "word3")
        focused().send_keys(Keys.ARROW_UP)
        self.assertLess(int(focused().get_attribute("data-token")), int(below[4:]))
        focused().send_keys(Keys.HOME)
        for key in 3 * [Keys.ARROW_RIGHT] + [Keys.ENTER]:
            focused().send_keys(key)
        self.assertEqual(self.text("#weights h2"), "Weights of “word3” at position 3")
        self.assertEqual(focused().text, "word3")
        for _ in range(20):
            focused().send_keys(Keys.TAB)
            if focused().get_attribute("class") == "rows" and "Whom" in focused().accessible_name:
                break
        self.assertEqual(focused().accessible_name, "Whom “word3” attends to")
        # The map of heads: arrow keys move, Enter chooses.
        self.run_script("document.querySelector('.cell[tabindex=\"0\"]').focus()")
        for key in (Keys.END, Keys.ARROW_LEFT, Keys.ENTER):
            focused().send_keys(key)
        self.assertEqual(self.text("#head h2"), "One head: head 1")
        self.assertIn("head 1", focused().accessible_name)

    def test_every_control_has_a_name(self):
        self.write("in.h5", **vectors())
        self.open("in.h5")
        self.open_drawers()
        for control in self.all("a, button:not(td button, th button), select, input, canvas, "
                                "svg[role]:not([aria-hidden]), .rows, .cell, .text"):
            self.assertTrue(control.accessible_name, control.get_attribute("outerHTML")[:200])

    def test_hostile_tokens_are_inert(self):
        names = [*HOSTILE, "", "\n", "\u0301", "\u200d", "\u2028"]
        tokens = np.array([names[n % len(names)] for n in range(LENGTH)], object)
        bad = HOSTILE[0]
        self.write("in.h5", {"model_name": bad, bad: HOSTILE[1]},
                   **{f"{bad}__{name}": values for name, values in vectors(tokens=tokens).items()})
        self.open("in.h5")
        self.open_drawers()
        for token in range(len(names)):
            self.run_script("document.querySelectorAll('.token[data-token]')[arguments[0]].click()", token)
        with self.assertRaises(NoAlertPresentException):
            self.browser.switch_to.alert.text  # pylint: disable=pointless-statement
        self.assertEqual(len(self.all("img, b b, bdi *, iframe, object, script:not(body > script)")), 0)
        shown = self.run_script("return document.body.innerText")
        self.assertIn("<img␣src=x␣onerror=alert(1)>", shown)
        self.assertIn("[001B][31m", shown)
        self.assertIn("[202E]gnp.exe", shown)
        self.assertNotRegex(shown, "[\x00-\x08\x0e-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
        self.assertEqual(self.texts(".token[data-token]")[6:11], ["[empty]", "⏎", "◌\u0301", "[200D]", "[2028]"])
        self.saved_pictures()

    def test_right_to_left(self):
        """Arabic words run from the right, also within English; English words run from the left."""
        tokens = np.array(["one", "two", "سلام", "،", "عالم", ".", "end"] + ["."] * (LENGTH - 7), object)
        self.write("in.h5", **vectors(tokens=tokens))
        self.open("in.h5")
        x = [token.rect["x"] for token in self.all(".text .token")]
        order = sorted(range(7), key=lambda n: x[n])
        self.assertEqual(order, [0, 1, 4, 3, 2, 5, 6])
        self.write("arabic.h5", **vectors(tokens=np.array(["سلام", "عالم", "one", "two", "كتاب"] + ["."] * (LENGTH - 5), object)))
        self.open("arabic.h5")
        x = [token.rect["x"] for token in self.all(".text .token")]
        self.assertEqual(sorted(range(5), key=lambda n: x[n]), [4, 2, 3, 1, 0])

    def saved_pictures(self):
        """All pictures as trees of XML, by the names of their files."""
        self.run_script("""
            window.saved = [];
            URL.createObjectURL = (blob) => { window.saved.push(blob.text()); return "blob:null/0"; };
            window.names = [];
            HTMLAnchorElement.prototype.click = function () { window.names.push(this.download); };
            document.querySelectorAll(".save").forEach((button) => button.click());""")
        texts = self.browser.execute_async_script("Promise.all(window.saved).then(arguments[0])")
        return {name: ElementTree.fromstring(text) for name, text in zip(self.run_script("return window.names"), texts)}

    def test_pictures_are_saved_whole(self):
        self.write("in.h5", **vectors())
        self.open("in.h5", state="head=0&key=17")
        pictures = self.saved_pictures()
        names = ["heads-unas-share-ignored", "heads-dnas-share-ignored", "column-sums-of-head-0",
                 *(f"{what}-{scheme}" for what in ("map", "weights") for scheme in ("unas", "hnas", "dnas"))]
        self.assertEqual(sorted(pictures), sorted(f"{name}.svg" for name in names))
        for name, picture in pictures.items():
            with self.subTest(name=name):
                self.assertEqual(picture.tag, "{http://www.w3.org/2000/svg}svg")
                self.assertNotIn("var(", ElementTree.tostring(picture, "unicode"))
        self.assertIn("word17", "".join(pictures["weights-unas.svg"].itertext()))
        image = pictures["map-dnas.svg"].find("{http://www.w3.org/2000/svg}image")
        self.assertTrue(image.get("href").startswith("data:image/png;base64,"))

    def test_the_address_keeps_the_view(self):
        self.write("in.h5", **vectors())
        self.open("in.h5")
        first = self.text("#head h2")
        self.choose("Head", "head 1")
        self.choose("Statistic", "entropy")
        self.choose("Column sums under", "hnas (mixture)")
        self.set_slider(Keys.END, "head")
        self.one("input[type=search]").send_keys("WORD2", Keys.ENTER)
        self.open_drawers()
        self.one("#head [data-column=dnas]").click()
        self.wait()
        seen = [self.text(f"#{section}") for section in ("overview", "head", "weights", "distribution")]
        self.assertIn("11 found", seen[1])
        self.assertEqual(self.text("#weights h2"), "Weights of “word20” at position 20")
        sums = [float(row[7]) for row in self.rows("40 tokens")]
        self.assertEqual(sums, sorted(sums, reverse=True))
        self.browser.get("about:blank")
        self.browser.back()
        self.open_drawers()
        self.assertEqual([self.text(f"#{section}") for section in ("overview", "head", "weights", "distribution")], seen)
        for wrong in ("head=99&u=7&key=-1&statistic=x&scheme=x&heads=x&pool=x", "head=NaN&key=1e9&out=x", "%"):
            self.open("in.h5", state=wrong)
            self.assertEqual(self.text("#head h2"), first)

    def test_back_returns_to_the_token_before(self):
        self.write("in.h5", **vectors())
        self.open("in.h5")
        for token in (3, 9):
            self.run_script("document.querySelectorAll('.token[data-token]')[arguments[0]].click()", token)
        self.browser.back()
        self.assertIn("word3", self.text("#weights h2"))

    def test_what_the_page_lacks(self):
        inputs = vectors()
        self.write("in.h5", **inputs)
        self.open("in.h5", "--size=1")
        self.assertEqual(self.text("#about"), "left out: weights of 3 of 3 heads (--size)")
        self.assertIn("The page does not have the weights of this head. Left out: weights of 3 of 3 heads (--size).", self.text("#weights"))
        self.assertFalse(any(one.is_displayed() for one in self.all("#weights canvas, #weights input")))
        del inputs["tokens"]
        self.write("plain.h5", **inputs)
        self.open("plain.h5")
        self.assertEqual([token.text for token in self.all(".text .token")], [str(n) for n in range(LENGTH)])
        self.write("masked.h5", **inputs, mask=np.zeros((LENGTH, LENGTH), bool))
        self.open("masked.h5")
        self.assertIn("No token counts: too few queries may attend to each.", self.text("#findings"))
        self.assertEqual(len(self.all(".text .token.masked")), LENGTH)
        inputs["q"] = inputs["q"][:, :7]
        self.write("cross.h5", **inputs, tokens=np.array(WORDS, object))
        self.open("cross.h5", state="key=17&query=3")
        self.assertEqual([len(self.all(".token", box)) for box in self.all(".text")], [LENGTH, 7])
        self.assertEqual(self.text("#weights h2"), "Weights of the query “3” and of the key “word17”")
        self.all(".text")[1].find_elements(By.CSS_SELECTOR, ".token")[6].click()
        self.assertEqual(self.text("#weights h2"), "Weights of the query “6” and of the key “word17”")
        self.assertEqual(len(self.rows("Who attends to “word17”")), 7)

    def test_causal_heads_count_tokens_with_enough_queries(self):
        inputs = vectors()
        inputs["k"][:, -2:, 0] = -30
        self.write("in.h5", {"attn_causal": "top-left"}, **inputs)
        self.open("in.h5")
        self.assertEqual([token.text for token in self.all(".text .token.ignored")], [WORDS[IGNORED]])
        self.assertEqual([token.text for token in self.all(".text .token.few")], WORDS[-3:])
        self.assertIn("ignores 3 of 111 tokens", self.text("#findings"))

    def test_contrast_and_widths(self):
        self.write("in.h5", **vectors())
        for theme in ("light", "dark"):
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": theme}]})
            self.open("in.h5")
            for token in self.all(".text .token")[:NUMBERS]:
                colours = [token.value_of_css_property(name) for name in ("color", "background-color")]
                self.assertGreaterEqual(contrast(*colours), 4.5)
            for colours in self.run_script("""
                    const ink = { "#000": "rgb(0,0,0)", "#fff": "rgb(255,255,255)" };
                    return Array.from({ length: 101 }, (_, n) => [view.colour(n / 100), ink[view.inkOn(n / 100)]]);"""):
                self.assertGreaterEqual(contrast(*colours), 4.5)
            paper = self.one("body").value_of_css_property("background-color")
            self.assertEqual(contrast(paper, "rgb(0,0,0)") > 4.5, theme == "light")
            for name in ("ink", "quiet", "link", "ignored", "unas", "hnas", "dnas", "out", "into"):
                colour = self.run_script("return view.paint(arguments[0])", name)
                colour = f"rgb({', '.join(str(int(colour[n:n + 2], 16)) for n in (1, 3, 5))})"
                self.assertGreaterEqual(contrast(colour, paper), 4.5, (theme, name))
            for width in (1280, 768, 400):
                size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
                self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
                self.assertLessEqual(self.run_script("return document.documentElement.scrollWidth"), width)
                # The bar of sections is whole, and does not hide the section that it leads to.
                widths = self.run_script("const bar = document.querySelector('nav'); return [bar.scrollWidth, bar.clientWidth]")
                self.assertLessEqual(*widths)
                self.one("nav a[href='#head']").click()
                bar, heading = self.run_script(
                    "return ['nav', '#head h2'].map((name) => document.querySelector(name).getBoundingClientRect())")
                self.assertGreaterEqual(heading["top"], max(0, bar["bottom"]))
        self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})

    def test_thousands_of_tokens(self):
        length = 3000
        q, k, v = np.random.default_rng(1).normal(size=(3, 1, length, DEPTH)).astype(np.float32)
        self.write("in.h5", q=q, k=k, v=v, tokens=np.array([f"t{n}" for n in range(length)], object))
        self.open("in.h5", "--size=1")
        self.open_drawers()
        self.assertLess(len(self.rows("3000 tokens")), 60)
        self.run_script("const rows = document.querySelector('#head .rows'); rows.scrollTop = rows.scrollHeight;")
        self.wait(100)
        self.assertEqual(self.rows("3000 tokens")[-1][1], "t2999")
        self.assertEqual(len(self.all(".text .token")), length)


if __name__ == "__main__":
    unittest.main()
