import assert from "node:assert/strict";
import { test } from "node:test";
import { idsInTests, readRequirements, testTexts } from "./coverage.ts";

test("every built requirement, whole or in part, has a test with its id", () => {
  const tested = idsInTests(testTexts());

  const bare = readRequirements().filter(({ id, status }) => status !== "later" && !tested.has(id));

  assert.deepEqual(
    bare.map(({ id, requirement }) => `${id} ${requirement}`),
    [],
  );
});

test("every id in a test name is in the list of requirements", () => {
  const known = new Set(readRequirements().map(({ id }) => id));
  const prefixes = new Set([...known].map((id) => id.slice(0, -4)));

  const unknown = [...idsInTests(testTexts())].filter((id) => prefixes.has(id.slice(0, -4)) && !known.has(id));

  assert.deepEqual(unknown, []);
});

test("ids count only at the beginning of a name, one or several", () => {
  const names = [
    "test(`QQQ-001 a field`)",
    'test("RRR-004, RRR-005 and more")',
    "test('like SSS-001')",
    '["QQQ-002: a", 1]',
  ];

  const ids = idsInTests(names);

  assert.deepEqual([...ids], ["QQQ-001", "RRR-004", "RRR-005", "QQQ-002"]);
});

test("a malformed list is refused", () => {
  const head = "id\tarea\tdoc\trequirement\tcheck\tstatus\tmissing";
  const row = "QQQ-001\truntime\t1\tit answers\task it\tbuilt";
  const part = row.replace("built", "part");

  assert.equal(readRequirements(`${head}\n${row}\n`)[0]?.status, "built");
  assert.equal(readRequirements(`${head}\n${part}\tnobody hears it\n`)[0]?.missing, "nobody hears it");
  for (const odd of [part, `${part}\t`, `${part}\t `, `${row}\tsomething`, row.replace("built", "later\tall of it")])
    assert.throws(() => readRequirements(`${head}\n${odd}\n`), /QQQ-001 says what is missing/, JSON.stringify(odd));
  assert.throws(() => readRequirements(`${head}\n${part}\ta\tb\n`), /QQQ-001 is malformed/);
  assert.throws(() => readRequirements(`${head}\n${row}\n${row}\n`), /QQQ-001 .*twice/);
  assert.throws(() => readRequirements(`${head}\n${row}!\n`), /QQQ-001 is malformed/);
  assert.throws(() => readRequirements(`${head}\nchat-1\ta\t1\tb\tc\tlater\n`), /chat-1 is no id/);
  assert.throws(() => readRequirements(`${row}\n`), /columns/);
});
