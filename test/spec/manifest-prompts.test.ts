// biome-ignore-all lint/suspicious/noTemplateCurlyInString: places of prompt bodies look like those of templates
import assert from "node:assert/strict";
import { test } from "node:test";
import { SvcError } from "../../bus/errors.ts";
import { commandsMax, expandBody, expandCommands, expandTemplate } from "../../manifests/prompts.ts";
import { compileSpec } from "../manifests/support.ts";

const { prompts } = compileSpec(
  {
    prompts: [
      { name: "greet", body: "Say hello to $1." },
      { name: "Sum-Up_2", body: "Sum up: $@" },
      { name: "two words", body: "A template: $1." },
      { name: "echo", body: "$1" },
      { name: "lines", body: "1=<$1> 2=<$2> 3=<$3>" },
      { name: "default", body: "In ${1:-English}, for ${2:-anyone}." },
      { name: "kept", file: "kept.md" },
      { name: "both", body: "The body.", file: "gone.md" },
      { name: "nothing" },
    ],
  },
  {},
  { texts: new Map([["prompts/default/kept.md", "From a file: $1."]]) },
);

/** The text of one user message after expansion of slash commands. */
function sent(content: string): unknown {
  return expandCommands(prompts, [{ role: "user", content }])[0]?.content;
}

function refused(call: () => unknown): string {
  try {
    call();
  } catch (error) {
    assert.ok(error instanceof SvcError, String(error));
    assert.equal(error.status, 404);
    return error.message;
  }
  return assert.fail("not refused");
}

test("CHAT-005 template names a prompt of the manifest, and the user turn is its expansion", () => {
  assert.equal(expandTemplate(prompts, "greet", ["Ann"]), "Say hello to Ann.");
  assert.equal(expandTemplate(prompts, "two words", ["x"]), "A template: x.");
  assert.equal(
    refused(() => expandTemplate(prompts, "gone", [])),
    "unknown_prompt:gone",
  );
});

test("CHAT-006 template_args are the positional arguments, unchanged", () => {
  assert.equal(expandTemplate(prompts, "lines", ["a b", "'c'"]), "1=<a b> 2=<'c'> 3=<>");
  assert.equal(expandTemplate(prompts, "sum-up_2", ["a b", "c"]), "Sum up: a b c");
  assert.equal(expandTemplate(prompts, "default", []), "In English, for anyone.");
});

test("CHAT-011 a user message /name args is replaced by the expansion of the prompt", () => {
  assert.equal(sent("/greet Ann"), "Say hello to Ann.");
  assert.equal(sent("/sum-up_2"), "Sum up: ");
  assert.equal(sent("/sum-up_2\nline one\nline two"), "Sum up: line one line two");
  assert.equal(sent("/kept x"), "From a file: x.");
  assert.equal(sent("/both"), "The body.");
  const [message] = expandCommands(prompts, [{ role: "user", content: "/greet Ann", name: "someone" }]);
  assert.deepEqual(message, { role: "user", content: "Say hello to Ann.", name: "someone" });
});

test("CHAT-013 only declared names are commands, and any other text is sent as written", () => {
  for (const text of [
    "/undeclared x",
    "/",
    "/ greet",
    "//greet",
    "greet Ann",
    " /greet Ann",
    "say /greet Ann",
    "/greet: Ann",
    "/greet/Ann",
    "/two words",
    "/two",
    "/größe",
    "/constructor",
    "/__proto__ x",
    "",
  ])
    assert.equal(sent(text), text);
});

test("CHAT-014 arguments are split like a shell, and at whitespace after an open quote", () => {
  assert.equal(sent('/lines "a b" c'), "1=<a b> 2=<c> 3=<>");
  assert.equal(sent('/lines "a b'), '1=<"a> 2=<b> 3=<>');
  assert.equal(sent("/lines it's a"), "1=<it's> 2=<a> 3=<>");
  assert.equal(sent("/lines a\\ b '' c"), "1=<a b> 2=<> 3=<c>");
});

test("CHAT-015 the name of a command matches in any case", () => {
  assert.equal(sent("/GREET x"), "Say hello to x.");
  assert.equal(sent("/SUM-up_2 x"), "Sum up: x");
  assert.equal(expandTemplate(prompts, "Two Words", ["x"]), "A template: x.");
});

test("CHAT-016 an empty expansion is empty_prompt with the prompt's name", () => {
  assert.equal(
    refused(() => sent("/echo")),
    "empty_prompt:echo",
  );
  assert.equal(
    refused(() => sent("/ECHO ' '")),
    "empty_prompt:echo",
  );
  assert.equal(
    refused(() => sent("/nothing at all")),
    "empty_prompt:nothing",
  );
  assert.equal(
    refused(() => expandTemplate(prompts, "echo", [])),
    "empty_prompt:echo",
  );
});

test("CHAT-017 a turn sent as content parts is never a command", () => {
  const parts = [{ type: "text", text: "/greet Ann" }];

  assert.deepEqual(expandCommands(prompts, [{ role: "user", content: parts }]), [{ role: "user", content: parts }]);
});

test("CHAT-018 every user turn of the request is expanded, and turns of others are not", () => {
  const messages = ["user", "assistant", "system", "tool", "user"].map((role) => ({ role, content: "/greet Ann" }));

  const contents = expandCommands(prompts, messages).map(({ content }) => content);

  assert.deepEqual(contents, ["Say hello to Ann.", "/greet Ann", "/greet Ann", "/greet Ann", "Say hello to Ann."]);
  assert.equal(messages[0]?.content, "/greet Ann", "what was given stays as it is");
});

test("CHAT-019 more than 16 commands are too_many_commands; other turns do not count", () => {
  const turns = (count: number, content: string) => Array.from({ length: count }, () => ({ role: "user", content }));

  assert.equal(commandsMax, 16);
  assert.equal(expandCommands(prompts, [...turns(16, "/greet x"), ...turns(20, "/undeclared")]).length, 36);
  assert.equal(
    refused(() => expandCommands(prompts, turns(17, "/greet x"))),
    "too_many_commands:16",
  );
  assert.equal(
    refused(() => expandCommands(prompts, turns(17, "/echo"))),
    "too_many_commands:16",
  );
});

test("CHAT-020 arguments of more than 16000 characters are split on whitespace only", () => {
  const quoted = (length: number) => `"a ${"b".repeat(length - 4)}"`;
  const first = (text: string) => (sent(`/lines ${text}`) as string).slice(0, 7);

  assert.equal(quoted(16_000).length, 16_000);
  assert.equal(first(quoted(16_000)), "1=<a bb");
  assert.equal(first(quoted(16_001)), '1=<"a> ');
  assert.equal(first(`"a ${"😀".repeat(15_996)}"`), "1=<a 😀", "characters, not UTF-16 units");
  assert.equal(first(`"a ${"😀".repeat(15_997)}"`), '1=<"a> ');
});

test("SPEC-032 bodies expand $1, $@ and a default in braces", () => {
  assert.equal(expandBody("$1", ["a", "b"]), "a");
  assert.equal(expandBody("$2-$1", ["a", "b"]), "b-a");
  assert.equal(expandBody("$@", ["a", "b c"]), "a b c");
  assert.equal(expandBody("${1:-default}", []), "default");
  assert.equal(expandBody("${1:-default}", [""]), "default");
  assert.equal(expandBody("${1:-default}", ["a"]), "a");
  assert.equal(expandBody("$1", []), "");
});

test("a prompt keeps its command flag and its name as declared", () => {
  assert.equal(prompts.get("greet")?.command, true);
  assert.equal(prompts.get("sum-up_2")?.name, "Sum-Up_2");
  assert.equal(prompts.get("two words")?.command, false);
});
