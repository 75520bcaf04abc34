// Which addresses SVC_EGRESS_PRIVATE opens.
import assert from "node:assert/strict";
import { test } from "node:test";
import { coversUrl, isBelow } from "../../../governance/egress/credentials.ts";
import { targetJudge } from "../../../governance/egress/judge.ts";
import type { EgressCredential } from "../../../governance/settings/egress-credentials.ts";

const host = (name: string, port = 80) => ({ host: name, cidr: null, port });
const network = (cidr: string, port = 80) => ({ host: null, cidr, port });

for (const [what, targets, address, place, expected] of [
  ["an address of the internet", [], "8.8.8.8", "dns.example:80", true],
  ["a private address without a target", [], "10.1.2.3", "10.1.2.3:80", false],
  ["a private address in a network", [network("10.1.0.0/16")], "10.1.2.3", "in.example:80", true],
  ["an address outside the network", [network("10.1.0.0/16")], "10.2.0.1", "in.example:80", false],
  ["an IPv4 address mapped into IPv6", [network("10.1.0.0/16")], "::ffff:10.1.2.3", "in.example:80", true],
  ["another port", [network("10.1.0.0/16")], "10.1.2.3", "in.example:81", false],
  ["a named host", [host("in.example")], "10.1.2.3", "in.example:80", true],
  ["another host", [host("in.example")], "10.1.2.3", "out.example:80", false],
  ["a named host with a metadata address", [host("in.example")], "169.254.169.254", "in.example:80", false],
  ["a metadata address in a wide network", [network("169.254.0.0/16")], "169.254.169.254", "x.example:80", false],
  ["a metadata address that is named", [host("169.254.169.254")], "169.254.169.254", "169.254.169.254:80", true],
  ["a metadata address as a network of one", [network("169.254.169.254/32")], "169.254.169.254", "x.example:80", true],
  ["multicast in a named network", [network("224.0.0.0/4")], "224.0.0.1", "x.example:80", false],
  ["multicast that is named", [host("224.0.0.1")], "224.0.0.1", "224.0.0.1:80", false],
] as const)
  test(`SVC_EGRESS_PRIVATE ${expected ? "allows" : "refuses"} ${what}`, () => {
    const [name = "", port] = place.split(":");

    assert.equal(targetJudge(targets)(address, { host: name, port: Number(port) }), expected);
  });

const credential: EgressCredential = {
  host: "api.example",
  port: 443,
  path_prefix: "/v1/",
  header: "authorization",
  scheme: "",
  secret: "",
  tenants: "*",
};

for (const [url, expected] of [
  ["https://api.example/v1/x", true],
  ["https://api.example:443/v1/x", true],
  ["https://api.example/v1", false],
  ["https://api.example/v1x", false],
  ["https://api.example/v1/../v2", false],
  ["https://api.example/v1/%2e%2e/v2", false],
  ["https://api.example/v1/..%2fv2", false],
  ["https://api.example/v1//x", false],
  ["https://api.example:8443/v1/x", false],
  ["http://api.example/v1/x", false],
  ["http://api.example:443/v1/x", false],
  ["https://sub.api.example/v1/x", false],
  ["https://api.example./v1/x", false],
] as const)
  test(`GOV-007 a credential ${expected ? "goes" : "does not go"} with ${url}`, () => {
    assert.equal(coversUrl(credential, new URL(url)), expected);
  });

test("a prefix matches whole segments", () => {
  assert.ok(isBelow("/a/b", "/a"));
  assert.ok(isBelow("/a", "/a"));
  assert.ok(!isBelow("/ab", "/a"));
  assert.ok(isBelow("/anything", "/"));
});
