import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { addressPattern } from "../../../actors/models/addresses.ts";
import { readTarget } from "../../../governance/egress/target.ts";

const pattern = addressPattern(readTarget("http://vllm:8000/client/accounts/a1b2/ai/v1/chat/completions"));
const without = (words: string) => words.replaceAll(pattern, "[address]");

describe("text without addresses", () => {
  for (const address of [
    "http://10.1.2.3:8080/v1/chat?key=1",
    "wss://user@gateway/x",
    "grpc+unix:///run/llm.sock",
    "10.1.2.3",
    "10.1.2.3:8080",
    "[fd00::12:1]:8080",
    "fe80::1%eth0",
    "::1",
    "::ffff:10.0.0.7",
    "2001:db8:0:0:0:0:0:1",
    "llm-3.internal.example.com",
    "llm.corp:8443/v1",
    "LLM.CORP",
    "upstream-4:8000",
    "localhost:11434",
    "api_gw:443",
    "vllm",
    "vllm:8000",
    "/client/accounts/a1b2/ai/v1/models",
    "llm.1.corp.internal",
  ]) {
    test(`${address} is removed`, () => {
      for (const [before, after] of [
        ["upstream ", " failed"],
        ["dial tcp ", ": refused"],
        ["(", ")"],
        ['"', '"'],
        ["at ", ""],
      ]) {
        const words = without(`${before}${address}${after}`);

        assert.ok(words.includes("[address]"), words);
        assert.doesNotMatch(
          words,
          /10\.|8080|db8|internal|corp|vllm|a1b2|llm|fd00|fe80|1%|gateway|11434|upstream-4|_gw/i,
        );
      }
    });
  }

  for (const [words, told] of [
    ["getaddrinfo ENOTFOUND ollama", "getaddrinfo ENOTFOUND [address]"],
    ["lookup ollama on resolver: no such host", "lookup [address] on resolver: no such host"],
    ["HTTPConnectionPool(host='ollama', port=80)", "HTTPConnectionPool(host='[address]', port=80)"],
    ["write to ops@corp.example now", "write to ops@[address] now"],
  ] as const) {
    test(`${words} keeps its other words`, () => assert.equal(without(words), told));
  }

  for (const words of [
    "Incorrect API key provided: [REDACTED].",
    "The model `gpt-4.1-mini` does not exist",
    "max_tokens: 5000 > 4096, the most for claude-3.5-sonnet",
    "code:429 at 12:30:45 on 2026-11-01T12:30:45Z",
    "messages[0].content: expected a string, e.g. 'hi'; i.e. not null",
    "Rate limit reached: 10.5 of 10 requests per 1.0 s",
    "std::bad_alloc in Foo::bar",
    "'temperature' is not supported. Only 1 is.",
  ]) {
    test(`${words} stays as it is`, () => assert.equal(without(words), words));
  }

  test("an address loses all its numbers, whatever surrounds it", () => {
    const octet = fc.integer({ min: 0, max: 255 });
    const around = fc.stringMatching(/^[ ,;"'()<>=]{0,3}$/);
    fc.assert(
      fc.property(around, fc.tuple(octet, octet, octet, octet), around, (before, octets, after) => {
        assert.equal(without(`${before}${octets.join(".")}${after}`), `${before}[address]${after}`);
      }),
    );
  });
});
