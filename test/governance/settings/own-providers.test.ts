import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createModels } from "../../../actors/models/create-models.ts";
import { bootRefusals } from "../../../governance/settings/boot-refusals.ts";
import { loadSettings } from "../../../governance/settings/settings.ts";
import { SettingsError } from "../../../governance/settings/settings-error.ts";
import { stillEnv } from "../../actors/models/support.ts";

const base_url = "http://127.0.0.1:11434/v1";

/** The refusal of a provider `mine`, or of the whole value. */
function refusalOf(value: object): string {
  try {
    loadSettings({ SVC_MODEL_PROVIDERS: JSON.stringify(value) });
  } catch (error) {
    assert.ok(error instanceof SettingsError);
    return String(error);
  }
  return "";
}

const wrong: Readonly<Record<string, readonly [object, RegExp]>> = {
  "a built-in name": [{ openai: { base_url } }, /openai is built in; choose another name/],
  "the offline model": [{ demo: { base_url } }, /demo is built in/],
  "a decider's provider": [{ typesafe: { base_url } }, /typesafe is built in/],
  "no address": [{ mine: {} }, /mine: base_url is missing/],
  "an address that is none": [{ mine: { base_url: "localhost:8000" } }, /mine: base_url must be an http or https URL/],
  "a user name in the address": [{ mine: { base_url: "http://a:planted@h/v1" } }, /must not carry a user name/],
  "an unknown kind": [{ mine: { base_url, kind: "gemini" } }, /mine: kind is one of openai, anthropic/],
  "an unknown member": [{ mine: { base_url, planted: 1 } }, /mine has a key other than base_url, api_key, headers/],
  "an empty key": [{ mine: { base_url, api_key: "" } }, /mine: api_key must be a non-empty string/],
  "a key with a line end": [{ mine: { base_url, api_key: "planted\r\nx: y" } }, /a header cannot carry/],
  "headers in a list": [{ mine: { base_url, headers: ["planted"] } }, /mine: headers must be a JSON object/],
  "a header name with a blank": [{ mine: { base_url, headers: { "planted x": "y" } } }, /an invalid header name/],
  "a header with a line end": [{ mine: { base_url, headers: { "x-a": "planted\nb" } } }, /x-a has a character/],
  "a header of the connection": [{ mine: { base_url, headers: { Host: "h" } } }, /host cannot be set/],
  "two keys": [{ mine: { base_url, api_key: "k", headers: { Authorization: "planted" } } }, /two keys; give one/],
  "a header twice": [{ mine: { base_url, headers: { "x-a": "1", "X-A": "2" } } }, /x-a is set twice/],
  "too many headers": [
    { mine: { base_url, headers: Object.fromEntries(Array.from({ length: 17 }, (_, at) => [`x-${at}`, "v"])) } },
    /headers are at most 16/,
  ],
  "a time that is none": [{ mine: { base_url, timeout: 0 } }, /timeout must be a number from 0.001/],
};

describe("SVC_MODEL_PROVIDERS", () => {
  for (const [what, [value, says]] of Object.entries(wrong)) {
    test(`is refused with ${what}`, () => {
      const said = refusalOf(value);

      assert.match(said, says);
      assert.match(said, /SVC_MODEL_PROVIDERS/);
      assert.ok(!said.includes("planted"), "what may be a secret is not repeated");
    });
  }

  test("routes may name them, and options are not for them", () => {
    const mine = { SVC_MODEL_PROVIDERS: JSON.stringify({ mine: { base_url } }) };
    const routed = { ...mine, SVC_MODEL_ROUTES: JSON.stringify({ m: { provider: "mine", model: "m" } }) };
    const optioned = { ...mine, SVC_MODEL_PROVIDER_OPTIONS: JSON.stringify({ mine: { timeout: 3 } }) };

    assert.deepEqual(bootRefusals(loadSettings(routed)), []);
    assert.equal(createModels(loadSettings(routed), stillEnv().env).defaultModelId, "m");
    assert.match(
      bootRefusals(loadSettings(optioned)).join(),
      /mine is declared in SVC_MODEL_PROVIDERS; set its options there/,
    );
    assert.throws(
      () => createModels(loadSettings(optioned), stillEnv().env),
      /mine: is declared in SVC_MODEL_PROVIDERS/,
    );
  });

  test("a plugin's provider of the same name stops the start", () => {
    const settings = loadSettings({ SVC_MODEL_PROVIDERS: JSON.stringify({ mine: { base_url } }) });
    const own = [{ name: "mine", open: () => assert.fail("it is not opened") }];

    assert.throws(
      () => createModels(settings, stillEnv().env, undefined, own),
      /mine is the name of a plugin's provider/,
    );
  });

  test("one of kind anthropic offers no vectors", () => {
    const settings = loadSettings({
      SVC_MODEL_PROVIDERS: JSON.stringify({ mine: { base_url, kind: "anthropic" } }),
      SVC_MODEL_ROUTES: JSON.stringify({ v: { provider: "mine", model: "v", kind: "embedding" } }),
    });

    assert.throws(() => createModels(settings, stillEnv().env), /v: mine has no embeddings/);
  });
});
