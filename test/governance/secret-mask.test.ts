import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, describe, test } from "node:test";
import fc from "fast-check";
import { SecretMask, Secrets } from "../../governance/secret-mask.ts";
import { isGuessable } from "../../governance/secrets/guessable.ts";
import { ValueScanner } from "../../governance/secrets/value-scanner.ts";
import { loadSettings } from "../../governance/settings/settings.ts";
import { runs } from "../support/effort.ts";

describe("secret:NAME in the environment", () => {
  const settings = loadSettings({ SVC_SECRET_DB: "value-of-db", SVC_SECRET_EMPTY: "" });
  const secrets = new Secrets(settings, new SecretMask([]));

  test("is the variable's value, and other text is itself", async () => {
    assert.equal(await secrets.resolve("secret:DB"), "value-of-db");
    assert.equal(await secrets.resolve("plain"), "plain");
    assert.equal(await secrets.resolve(""), "");
  });

  for (const name of ["MISSING", "EMPTY", "", "db", "constructor", "__proto__", "../DB", "A B", "x".repeat(200)]) {
    test(`${JSON.stringify(name.slice(0, 20))} is unresolved`, async () => {
      await assert.rejects(secrets.resolve(`secret:${name}`), {
        code: "unresolved_secret",
        status: 503,
        details: { subject: name },
      });
    });
  }
});

describe("secret:NAME in files", () => {
  const directory = mkdtempSync(join(tmpdir(), "svc-secrets-"));
  after(() => rmSync(directory, { recursive: true }));
  const files = join(directory, "secrets");
  mkdirSync(files);
  writeFileSync(join(directory, "outside"), "outside-the-directory");
  writeFileSync(join(files, "token"), "value-of-token\n");
  writeFileSync(join(files, "two-lines"), "first\nsecond\r\n");
  writeFileSync(join(files, "empty"), "\n");
  writeFileSync(join(files, "huge"), "x".repeat(70_000));
  mkdirSync(join(files, "folder"));
  // The layout in which Kubernetes mounts secrets.
  symlinkSync("token", join(files, "linked"));
  execFileSync("mkfifo", [join(files, "pipe")]);
  const settings = loadSettings({
    SVC_SECRETS_BACKEND: "file",
    SVC_SECRETS_DIR: files,
    SVC_SECRET_token: "of-the-environment",
  });

  test("is the file's content, without its last line break", async () => {
    const secrets = new Secrets(settings, new SecretMask([]));

    assert.equal(await secrets.resolve("secret:token"), "value-of-token");
    assert.equal(await secrets.resolve("secret:linked"), "value-of-token");
    assert.equal(await secrets.resolve("secret:two-lines"), "first\nsecond");
  });

  test("is read again each time", async () => {
    const secrets = new Secrets(settings, new SecretMask([]));
    writeFileSync(join(files, "rotated"), "old-value");
    await secrets.resolve("secret:rotated");

    writeFileSync(join(files, "rotated"), "new-value");

    assert.equal(await secrets.resolve("secret:rotated"), "new-value");
  });

  test("is masked from then on", async () => {
    const mask = new SecretMask([]);
    const text = "the token is value-of-token.";
    assert.equal(mask.recorded.text(text), text);

    await new Secrets(settings, mask).resolve("secret:token");

    assert.equal(mask.recorded.text(text), "the token is [REDACTED].");
  });

  for (const name of [
    "missing",
    "empty",
    "huge",
    "folder",
    "pipe",
    "../outside",
    "..",
    ".",
    "/etc/passwd",
    "folder/x",
  ]) {
    test(`${name} is unresolved`, async () => {
      await assert.rejects(new Secrets(settings, new SecretMask([])).resolve(`secret:${name}`), {
        code: "unresolved_secret",
        details: { subject: name },
      });
    });
  }
});

describe("the mask", () => {
  const mask = new SecretMask([
    "correct-horse",
    "horse-battery-staple",
    "correct-horse-2",
    "short",
    'a "quoted" secret',
    "p@ss word/1",
  ]);

  const cases: [string, string, string][] = [
    ["a known secret", "it is correct-horse!", "it is [REDACTED]!"],
    ["one at both ends", "correct-horse and correct-horse", "[REDACTED] and [REDACTED]"],
    ["the longer of two that begin alike", "x correct-horse-2 y", "x [REDACTED] y"],
    ["two that overlap", "correct-horse-battery-staple", "[REDACTED]"],
    ["two that touch", "correct-horsecorrect-horse", "[REDACTED]"],
    ["one inside a word", "xcorrect-horsex", "x[REDACTED]x"],
    ["one as a URL spells it", "?p=p%40ss%20word%2F1&x", "?p=[REDACTED]&x"],
    ["nothing below eight characters", "short", "short"],
    ["nothing in other letters", "Correct-horse", "Correct-horse"],
    ["nothing in a part of one", "correct-hors", "correct-hors"],
  ];
  for (const [name, text, masked] of cases) {
    test(`hides ${name}`, () => {
      assert.equal(mask.recorded.text(text), masked);
    });
  }

  const pem = (label: string) =>
    `-----BEGIN ${label}PRIVATE KEY-----\nMIIEvQIBADANBg+/=\nkqhkiG9w0B\n-----END ${label}PRIVATE KEY-----`;
  const credentials: [string, string][] = [
    ["an AWS key id", "AKIAIOSFODNN7EXAMPLE"],
    ["a temporary AWS key id", "ASIAIOSFODNN7EXAMPLE"],
    ["an OpenAI key", "sk-abcdefghij0123456789ABCD"],
    ["an OpenAI project key", "sk-proj-abc_def-ghij0123456789ABCD"],
    ["an Anthropic key", "sk-ant-api03-abc_def-ghij0123456789ABCD"],
    ["a GitHub token", `ghp_${"aB3".repeat(12)}`],
    ["a GitHub server token", `ghs_${"aB3".repeat(12)}`],
    ["a fine-grained GitHub token", `github_pat_${"aB3_".repeat(12)}`],
    ["a Slack token", "xoxb-123456789012-abcdefABCDEF"],
    ["a Slack app token", "xapp-1-A0123456789-abcdef"],
    ["a Stripe key", "sk_live_0123456789abcdefABCD"],
    ["a restricted Stripe key", "rk_live_0123456789abcdefABCD"],
    ["a private key", pem("")],
    ["an RSA private key", pem("RSA ")],
    ["an encrypted private key", pem("ENCRYPTED ")],
    ["an OpenSSH private key", pem("OPENSSH ")],
  ];
  const plain = new SecretMask([]);
  for (const [name, credential] of credentials) {
    test(`hides ${name} without registration`, () => {
      for (const around of [`${credential}`, `key="${credential}".`, `(${credential})`, `first\n${credential}\nlast`]) {
        assert.equal(plain.recorded.text(around), around.replace(credential, "[REDACTED]"));
      }
      const inJson = JSON.stringify({ text: `line\n${credential}\nline`, other: `é${credential}` });
      assert.deepEqual(JSON.parse(plain.recorded.jsonText(inJson)), {
        text: "line\n[REDACTED]\nline",
        other: "é[REDACTED]",
      });
    });
  }

  test("hides a private key that was cut off", () => {
    assert.equal(plain.recorded.text("a -----BEGIN RSA PRIVATE KEY-----\nMIIEvQIBADANBg"), "a [REDACTED]");
    assert.equal(plain.recorded.text(JSON.stringify("-----BEGIN PRIVATE KEY-----\nMIIE")), '"[REDACTED]"');
  });

  for (const innocent of [
    "task-abcdefghijklmnopqrstuvwxyz",
    "sk-learn",
    "a risk-adjusted return",
    "AKIA is a prefix",
    "AKIAIOSFODNN7EXAMPLEandmore",
    "sk_test_0123456789abcdefABCD",
    "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----",
    "ghp_short",
  ]) {
    test(`leaves ${JSON.stringify(innocent.slice(0, 30))} alone`, () => {
      assert.equal(plain.recorded.text(innocent), innocent);
    });
  }

  test("returns the same string and the same value when nothing is hidden", () => {
    const value = { a: ["x", { b: "y" }], c: 1, d: null, e: true };

    assert.equal(mask.recorded.value(value), value);
    assert.equal(mask.recorded.jsonText('{ "a":1 }'), '{ "a":1 }');
  });

  test("covers values and keys and keeps the rest", () => {
    const same = { deep: "ok" };
    const value = { a: ["correct-horse", 7, null], "correct-horse": true, same, date: false };

    const masked = mask.recorded.value(value) as Record<string, unknown>;

    assert.deepEqual(masked, { a: ["[REDACTED]", 7, null], "[REDACTED]": true, same, date: false });
    assert.equal(masked.same, same);
  });

  test("keeps a key named __proto__ a key", () => {
    const masked = mask.recorded.value(JSON.parse('{"__proto__": {"admin": "correct-horse"}}')) as object;

    assert.equal(Object.getPrototypeOf(masked), Object.prototype);
    assert.equal(JSON.stringify(masked), '{"__proto__":{"admin":"[REDACTED]"}}');
  });

  test("hides values that are nested too deep", () => {
    const deep = `${"[".repeat(100_000)}"correct-horse"${"]".repeat(100_000)}`;

    const masked = mask.recorded.jsonText(deep);

    assert.doesNotMatch(masked, /correct-horse/);
    assert.match(masked, /\[REDACTED\]/);
  });

  test("keeps JSON text JSON with any planted text", () => {
    const secrets = ["nabcdefgh", 'say "hi" now', "back\\slash\\es", "u0000abcd", "correct-horse"];
    const planted = new SecretMask(secrets);
    const piece = fc.oneof(
      fc.string(),
      fc.constantFrom(...secrets),
      fc.constantFrom("\n", "\\", '"', "\u0001", "abcdefgh"),
    );
    const text = fc.array(piece, { maxLength: 6 }).map((pieces) => pieces.join(""));

    fc.assert(
      fc.property(fc.dictionary(text, fc.array(text)), (value) => {
        const masked = JSON.parse(planted.recorded.jsonText(JSON.stringify(value)));
        const strings = [...Object.keys(masked), ...(Object.values(masked).flat() as string[])];
        for (const string of strings) for (const secret of secrets) assert.ok(!string.includes(secret));
      }),
      { numRuns: runs(500) },
    );
  });

  test("text that is not JSON is masked as text", () => {
    assert.equal(mask.recorded.jsonText("{ correct-horse"), "{ [REDACTED]");
  });
});

describe("text for callers", () => {
  const strong = "planted-secret-0001";
  const mask = new SecretMask([strong, "hunter2-9x", "correct-horse-battery-staple", `ghp_${"aB3".repeat(12)}`]);

  test("is masked of unguessable secrets, and of nothing else", () => {
    const text = `${strong} hunter2-9x correct-horse-battery-staple`;

    assert.equal(mask.sent.text(text), "[REDACTED] hunter2-9x correct-horse-battery-staple");
    assert.equal(mask.recorded.text(text), "[REDACTED] [REDACTED] [REDACTED]");
    assert.equal(mask.forms.text(text), text);
  });

  test("keeps every spelling of a guessable secret", () => {
    const short = new SecretMask(["pä ss/wörd"]);
    const spelled = encodeURIComponent("pä ss/wörd");
    assert.ok(spelled.length >= 16);

    assert.equal(short.sent.text(spelled), spelled);
    assert.equal(short.recorded.text(spelled), "[REDACTED]");
  });

  test("keeps secrets of the caller's own text, as whole words only", () => {
    const token = `ghp_${"xY4".repeat(12)}`;
    const own = `I wrote ${token} and ${strong.slice(0, -1)}`;

    assert.equal(mask.sent.text(`${token} ${strong}`, own), `${token} [REDACTED]`);
    assert.equal(mask.sent.text(`${token} ${strong}`, strong), `[REDACTED] ${strong}`);
  });
});

describe("a guessable secret", () => {
  const words = [
    "fifteen-chars-1",
    "correct-horse-battery-staple",
    "Correct Horse Battery Staple!",
    "correctHorseBatteryStaple",
    "my-db-password-of-acme",
    "A-Database-Of-Acme",
    "PRODUCTION_DATABASE",
    "aaaaaaaaaaaaaaaaaaaaaaaa",
    "straße-größe-übermut",
    "----------------",
    "  padded to sixteen  ",
    "postgres://svc:hunter2@db.internal:5432/svc",
  ];
  for (const secret of words) test(`by its length or its words: ${secret}`, () => assert.ok(isGuessable(secret)));

  const unguessable = [
    "sixteen-chars-16",
    "planted-secret-value-0001",
    "kQzPbVxLmWnRtYcD",
    "3f2a9cdeab4410ff",
    "qzjx-kvbw-MpQL-rtzn",
    "postgres://svc:3f2a9cdeab4410ff@db/svc",
    "密码密码密码密码密码密码密码密码",
  ];
  for (const secret of unguessable) test(`not so ${secret}`, () => assert.ok(!isGuessable(secret)));
});

describe("the scanner", () => {
  const letters = fc.stringMatching(/^[ab]{8,12}$/);

  test("finds the same texts as a search for each one", () => {
    fc.assert(
      fc.property(fc.array(letters, { maxLength: 12 }), fc.stringMatching(/^[abc]{0,80}$/), (values, text) => {
        const covered = new Set<number>();
        for (const value of values) {
          for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1)) {
            for (let i = at; i < at + value.length; i++) covered.add(i);
          }
        }

        const places: number[] = [];
        new ValueScanner(values).find(text, places);

        const found = new Set<number>();
        for (let i = 0; i < places.length; i += 2) {
          for (let at = places[i] ?? 0; at < (places[i + 1] ?? 0); at++) found.add(at);
        }
        assert.deepEqual([...found].sort(), [...covered].sort());
      }),
      { numRuns: runs(1000) },
    );
  });

  test("reads about a sixth of a text without secrets, however many it knows", () => {
    const values = Array.from({ length: 500 }, (_, index) => `secret-${index}-${"x".repeat(20)}`);
    const scanner = new ValueScanner(values);
    const text = countingText("The quick brown fox jumps over the lazy dog. ".repeat(1000));

    scanner.find(text.text, []);

    assert.ok(text.reads() < text.text.length, `${text.reads()} reads of ${text.text.length} characters`);
  });

  test("does equal work for many and few secrets, even on their common prefix", () => {
    const hostile = "sk-proj-".repeat(5000);
    const work = (count: number): number => {
      const scanner = new ValueScanner(
        Array.from({ length: count }, (_, index) => `sk-proj-${index.toString(36).padStart(8, "0")}`),
      );
      const text = countingText(hostile);
      scanner.find(text.text, []);
      return text.reads();
    };

    assert.ok(work(1000) < 2 * work(10));
    assert.ok(work(1000) < 4 * hostile.length);
  });
});

/** A text that counts how often a character of it is read. */
function countingText(plain: string): { text: string; reads(): number } {
  let reads = 0;
  const counting = {
    length: plain.length,
    charCodeAt(index: number): number {
      reads++;
      return plain.charCodeAt(index);
    },
  };
  return { text: counting as unknown as string, reads: () => reads };
}
