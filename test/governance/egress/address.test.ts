import assert from "node:assert/strict";
import { test } from "node:test";
import { allowsAddress } from "../../../governance/egress/address.ts";
import { EgressBlocked } from "../../../governance/egress/failure.ts";
import { readTarget } from "../../../governance/egress/target.ts";

/** Inside, first and last address of every network outside the internet, in more than one spelling. */
const ownNetworks = [
  ...["0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255"],
  ...["127.0.0.0", "127.0.0.1", "127.255.255.255", "169.254.0.0", "169.254.255.255"],
  ...["172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.255", "192.0.2.1", "192.88.99.1"],
  ...["192.168.0.0", "192.168.255.255", "198.18.0.0", "198.19.255.255", "198.51.100.1", "203.0.113.1"],
  ...["::", "::1", "0:0:0:0:0:0:0:1", "::127.0.0.1", "::8.8.8.8"],
  ...["::ffff:127.0.0.1", "::ffff:7f00:1", "0:0:0:0:0:FFFF:10.0.0.1", "::ffff:192.168.1.1", "::ffff:0.0.0.0"],
  // IPv4 in NAT64 addresses, by the well-known and the local prefix
  ...["64:ff9b::8.8.8.8", "64:ff9b::7f00:1", "64:ff9b:1::a00:1"],
  ...["100::1", "fc00::1", "fd12:3456::1", "fe80::1", "febf::1", "fec0::1", "1fff:ffff::1", "4000::1", "5f00::1"],
  // Teredo, benchmarks, ORCHID, documentation, 6to4
  ...["2001::1", "2001:0:4136:e378::", "2001:2::1", "2001:20::1", "2001:1ff:ffff::1", "2001:db8::1"],
  ...["2001:0db8:ffff::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "3fff:fff:ffff::1"],
];

/** Addresses without a host. */
const nowhere = [
  ...["224.0.0.0", "239.255.255.255", "240.0.0.0", "255.255.255.255", "ff00::", "ff02::1", "ffff::1"],
  ...["169.254.169.254", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "169.254.170.2", "169.254.170.23"],
  ...["fd00:ec2::254", "fd00:0ec2:0:0:0:0:0:0254", "fd00:ec2::23", "fd20:ce::254"],
  ...["168.63.129.16", "100.100.100.200", "192.0.0.192", "::ffff:224.0.0.1"],
];

const internet = [
  ...["1.0.0.0", "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0"],
  ...["126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"],
  ...["192.0.1.0", "192.0.3.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0", "223.255.255.255"],
  ...["168.63.129.15", "168.63.129.17", "::ffff:8.8.8.8", "::ffff:808:808"],
  ...["2000::1", "2001:200::1", "2001:4860:4860::8888", "2001:db7::1", "2001:db9::1", "2003::1"],
  ...["2606:4700:4700::1111", "2A00:1450::1", "3ffe:ffff::1", "3fff:1000::1"],
];

/** Values of `isIP` and resolvers that are not plain addresses, and names. */
const noAddresses = [
  ...["", "fe80::1%eth0", "2606:4700::1%1", "8.8.8.8%eth0", "[2606:4700::1]", "8.8.8.8 ", "8.8.8", "134744072"],
  ...["0x8080808", "010.8.8.8", "8.8.8.8.", "8.8.8.8/32", "localhost", "example.com", "::g", "1::2::3"],
];

test("the public policy allows the internet and no other address", () => {
  const allowed = (address: string) => allowsAddress("public", address);

  assert.deepEqual(internet.filter(allowed), internet);
  assert.deepEqual([...ownNetworks, ...nowhere, ...noAddresses].filter(allowed), []);
});

test("the operator's policy adds its networks, never metadata, groups or reserved ones", () => {
  const allowed = (address: string) => allowsAddress("operator", address);

  assert.deepEqual([...internet, ...ownNetworks].filter(allowed), [...internet, ...ownNetworks]);
  assert.deepEqual([...nowhere, ...noAddresses].filter(allowed), []);
});

/** The host of a URL as it is checked: a literal without brackets. */
const hostOf = (url: string): string => readTarget(url).hostname.replace(/^\[(.*)\]$/, "$1");

for (const [host, read] of [
  ["127.0.0.1", "127.0.0.1"],
  ["2130706433", "127.0.0.1"],
  ["0x7f000001", "127.0.0.1"],
  ["0X7F.1", "127.0.0.1"],
  ["017700000001", "127.0.0.1"],
  ["0177.0.0.01", "127.0.0.1"],
  ["127.1", "127.0.0.1"],
  ["127.0.0.1.", "127.0.0.1"],
  ["%31%32%37.0.0.1", "127.0.0.1"],
  ["①②⑦.⓪.⓪.①", "127.0.0.1"],
  ["127。0。0。1", "127.0.0.1"],
  ["1\u200b27.0.0.1", "127.0.0.1"],
  ["0", "0.0.0.0"],
  ["3232235777", "192.168.1.1"],
  ["0xa9.0xfe.0xa9.0xfe", "169.254.169.254"],
  ["169.254.43518", "169.254.169.254"],
  ["[::1]", "::1"],
  ["[0:0:0:0:0:0:0:1]", "::1"],
  ["[::ffff:127.0.0.1]", "::ffff:7f00:1"],
  ["[::FFFF:169.254.169.254]", "::ffff:a9fe:a9fe"],
  ["[::7f00:1]", "::7f00:1"],
  ["[64:ff9b::169.254.169.254]", "64:ff9b::a9fe:a9fe"],
] as const) {
  test(`http://${encodeURI(host)}/ is read as ${read}, which the public policy refuses`, () => {
    const found = hostOf(`http://${host}:8080/`);

    assert.equal(found, read);
    assert.equal(allowsAddress("public", found), false);
  });
}

for (const [host, read] of [
  ["EXAMPLE.com", "example.com"],
  ["exa\u200bmple.com", "example.com"],
  ["meta\u00addata.google.internal", "metadata.google.internal"],
  ["ｌｏｃａｌｈｏｓｔ", "localhost"],
  ["localhost.", "localhost."],
  ["bücher.example", "xn--bcher-kva.example"],
  ["xn--bcher-kva.example", "xn--bcher-kva.example"],
  // A Cyrillic letter: another name, and seen as one
  ["\u0430pple.com", "xn--pple-43d.com"],
] as const) {
  test(`the name ${encodeURI(host)} is read as ${read}, and goes to the resolver`, () => {
    assert.equal(hostOf(`https://${host}/`), read);
  });
}

for (const url of [
  "http://user@example.com/",
  "http://user:password@example.com/",
  "http://:password@example.com/",
  "http://example.com@127.0.0.1/",
  "http://example.com%40127.0.0.1@10.0.0.1/",
  "http://[fe80::1%eth0]/",
  "http://[fe80::1%25eth0]/",
  "http://[::1/",
  "http://256.0.0.1/",
  "http://1.2.3.4.5/",
  "http://0x1ffffffff/",
  "http://exam ple.com/",
  "http://exam%00ple.com/",
  "http://xn--a/",
  "http:///",
  "http://example.com:65536/",
  "ftp://example.com/",
  "file:///etc/passwd",
  "data:text/plain,x",
  "ws://example.com/",
  "unix:///run/x.sock",
  "//example.com/",
  "example.com",
  "",
]) {
  test(`${JSON.stringify(url)} is no target`, () => {
    assert.throws(() => readTarget(url), EgressBlocked);
  });
}

test("a target keeps port, path and query, and has no fragment", () => {
  const target = readTarget("HTTPS://Example.com:443/a/../b%20c?d=e#f");

  assert.deepEqual(target, {
    origin: "https://example.com",
    host: "example.com",
    hostname: "example.com",
    pathname: "/b%20c",
    search: "?d=e",
    isTls: true,
    port: 443,
  });
});
