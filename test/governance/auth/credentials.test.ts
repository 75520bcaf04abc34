import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { type Credential, readCredential } from "../../../governance/auth/credentials.ts";
import { runs } from "../../support/effort.ts";

const forms = { schemes: ["bearer", "apikey"], keyHeader: true };
const bearerOnly = { schemes: ["bearer"], keyHeader: false };

function read(authorization: string | undefined, x_api_key?: string, accepted = forms): Credential {
  return readCredential({ authorization, x_api_key }, accepted);
}

const token = fc
  .stringMatching(/^[A-Za-z0-9._~+/=-]{1,64}$/)
  .filter((text) => !/^(null|undefined|none|nan|true|false)$/i.test(text));
const spaces = fc.stringMatching(/^ {1,4}$/);

describe("a credential", () => {
  test("is read from each of the three forms, whatever the case of the scheme", () => {
    fc.assert(
      fc.property(token, fc.mixedCase(fc.constantFrom("bearer", "apikey")), spaces, (text, scheme, gap) => {
        assert.deepEqual(read(`${scheme}${gap}${text}`), { token: text });
        assert.deepEqual(read(undefined, text), { token: text });
        assert.deepEqual(read(` ${scheme}${gap}${text} `), { token: text });
      }),
    );
  });

  test("in both headers is accepted only when both are equal", () => {
    fc.assert(
      fc.property(token, token, (first, second) => {
        assert.deepEqual(read(`Bearer ${first}`, first), { token: first });
        if (first !== second) assert.equal(read(`Bearer ${first}`, second), "malformed");
      }),
    );
  });

  test("from any text is one token without spaces, or none", () => {
    fc.assert(
      fc.property(fc.option(fc.string()), fc.option(fc.string()), (authorization, key) => {
        const credential = read(authorization ?? undefined, key ?? undefined);
        if (typeof credential === "string") return;
        assert.match(credential.token, /^[\x21-\x7e]+$/);
        assert.ok((authorization ?? "").includes(credential.token) || (key ?? "").includes(credential.token));
      }),
      { numRuns: runs(1000) },
    );
  });

  const malformed: [string, string | undefined, string | undefined][] = [
    ["another scheme", "Basic dXNlcjpwdw==", undefined],
    ["two credentials in one header", "Bearer a, Bearer b", undefined],
    ["two tokens", "Bearer a b", undefined],
    ["a list", "Bearer a,b", undefined],
    ["an array", 'Bearer ["a"]', undefined],
    ["an array of nothing", "Bearer []", undefined],
    ["an object", "Bearer {}", undefined],
    ["null", "Bearer null", undefined],
    ["undefined", "Bearer undefined", undefined],
    ["Undefined", undefined, "Undefined"],
    ["null as a key", undefined, "null"],
    ["a quoted token", 'Bearer "abc"', undefined],
    ["a tab between", "Bearer\tabc", undefined],
    ["a control character", "Bearer a\u0000b", undefined],
    ["other letters", "Bearer käse", undefined],
    ["a token of 8193 characters", `Bearer ${"a".repeat(8193)}`, undefined],
    ["a good token and a bad key", "Bearer abc", "null"],
    ["a bad token and a good key", "Basic abc", "abc"],
    ["a token and a no-break space", "Bearer abc\u00a0", undefined],
    ["a scheme behind a byte order mark", "\ufeffBearer abc", undefined],
    ["a key and a no-break space", undefined, "abc\u00a0"],
    ["a key behind an em space", undefined, "\u2003abc"],
    ["a no-break space", "\u00a0", undefined],
    ["an empty scheme", " : abc", undefined],
  ];
  for (const [name, authorization, key] of malformed) {
    test(`is not ${name}`, () => {
      assert.equal(read(authorization, key), "malformed");
    });
  }

  test("a token without a scheme is bare, also next to a good key", () => {
    assert.deepEqual([read("abc", undefined), read("sk-a_b.c+/=", "abc")], ["bare", "bare"]);
  });

  const missing: [string, string | undefined, string | undefined][] = [
    ["no header", undefined, undefined],
    ["empty headers", "", ""],
    ["blank headers", "  ", " \t"],
    ["a scheme without a token", "Bearer", undefined],
    ["a scheme and spaces", "Bearer   ", undefined],
  ];
  for (const [name, authorization, key] of missing) {
    test(`is missing with ${name}`, () => {
      assert.equal(read(authorization, key), "missing");
    });
  }

  test("in X-Api-Key does not count where only bearer tokens do", () => {
    assert.equal(read(undefined, "abc", bearerOnly), "malformed");
    assert.equal(read("ApiKey abc", undefined, bearerOnly), "malformed");
    assert.equal(read("Bearer abc", "other", bearerOnly), "malformed");
    assert.deepEqual(read("Bearer abc", undefined, bearerOnly), { token: "abc" });
  });
});
