import assert from "node:assert/strict";
import { test } from "node:test";
import { admitsHost, isHostEntry } from "../../manifests/hosts.ts";

test("entries are hosts, *. before a host, or IP addresses", () => {
  const good = [
    "example.com",
    "localhost",
    "a-b.example.com",
    "*.example.com",
    "*.com",
    "xn--bcher-kva.example",
    "EXAMPLE.com",
    "10.0.0.1",
    "::1",
    "2001:db8::1",
    "a1.2b",
    `${"a".repeat(63)}.com`,
  ];
  const bad = [
    "",
    "https://example.com",
    "example.com/path",
    "example.com:443",
    "example.com.",
    ".example.com",
    "*",
    "*.",
    "**.example.com",
    "a.*.example.com",
    "*example.com",
    "*.10.0.0.1",
    "bücher.example",
    "user@example.com",
    "exa mple.com",
    "[::1]",
    "2130706433",
    "0x7f000001",
    "127.1",
    "0177.0.0.1",
    "256.1.1.1",
    "-a.com",
    "a-.com",
    "a..com",
    "a_b.com",
    `${"a".repeat(64)}.com`,
    `${"a.".repeat(127)}com`,
  ];

  for (const entry of good) assert.equal(isHostEntry(entry), true, entry);
  for (const entry of bad) assert.equal(isHostEntry(entry), false, entry);
});

test("a list admits the hosts of URLs", () => {
  const entries = ["example.com", "*.wild.com", "10.0.0.1", "2001:DB8::1"];
  const host = (url: string) => new URL(url).hostname;

  for (const url of [
    "https://example.com/x",
    "https://EXAMPLE.com:444",
    "https://a.wild.com",
    "https://a.b.wild.com",
    "http://10.0.0.1",
    "http://[2001:db8:0::1]",
  ])
    assert.equal(admitsHost(entries, host(url)), true, url);
  for (const url of [
    "https://wild.com",
    "https://a.example.com",
    "https://xwild.com",
    "https://example.com.evil.net",
    "http://10.0.0.2",
    "http://[::1]",
  ])
    assert.equal(admitsHost(entries, host(url)), false, url);
  assert.equal(admitsHost([], "example.com"), false);
});
