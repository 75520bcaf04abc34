import fc from "fast-check";
import { manifestSchema } from "../../manifests/schema/manifest.ts";
import { damaged, fitting, type Hints, type Schema } from "./values.ts";

// Manifests made from their schema, whole and damaged.

const { metadata, spec } = (manifestSchema as unknown as Schema).properties as Record<"metadata" | "spec", Schema>;
const sections = spec.properties as Readonly<Record<string, Schema>>;

const tool = fc.constantFrom("calculator", "todo_write", "read_file", "write_file", "glob", "nobodys_tool");
/** Existing names for fields of manifests, by the field's name. */
const hints: Hints = {
  id: fc.constantFrom("plain", "hostile", "nobody"),
  "fallbacks[]": fc.constantFrom("plain", "hostile", "nobody"),
  "tools[]": tool,
  "required_scopes[]": fc.constantFrom("chat:read", "*", "nobodys:scope"),
  "schemes[]": fc.constantFrom("api_key", "jwt", "none", "nobodys"),
  "providers[]": fc.constantFrom("openai", "nobodys"),
  "files[]": fc.constantFrom("nobodys.md", "../x", "a/b.md"),
  file: fc.constantFrom(null, null, "nobodys.md"),
  strategy: fc.constantFrom("full_replay", "windowed:1", "windowed:1000", "compacting"),
  inline: fc.constantFrom("Be brief.", "$1 {{x}} secret:NOBODY", "secret:SVC_X"),
  max_tool_calls: fc.integer({ min: 0, max: 5 }),
  max_wall_clock_seconds: fc.integer({ min: 1, max: 60 }),
  recursion_limit: fc.integer({ min: 1, max: 5 }),
  body: fc.constantFrom("Sum up $1.", "$@", `\${1:-x} $ARGUMENTS`, ""),
};

/** A manifest of this name; most of them are valid. */
export function manifestOf(name: string): fc.Arbitrary<unknown> {
  const any = specOf(Object.keys(sections));
  const whole = (of: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
    fc
      .tuple(fitting(metadata, hints), of, fc.constantFrom<object>({}, { apiVersion: "svc/v1" }, { kind: "Agent" }))
      .map(([about, what, rest]) => ({ ...rest, metadata: { ...(about as object), name }, spec: what }));
  return fc.oneof({ weight: 7, arbitrary: whole(any) }, { weight: 4, arbitrary: damaged(whole(any)) });
}

/** A few sections, each valid by its schema. */
function specOf(names: readonly string[]): fc.Arbitrary<unknown> {
  return fc
    .uniqueArray(fc.constantFrom(...names), { maxLength: 4 })
    .chain((chosen) => fc.tuple(...chosen.map((name) => sectionOf(name).map((value) => [name, value] as const))))
    .map((entries) => Object.fromEntries(entries));
}

function sectionOf(name: string): fc.Arbitrary<unknown> {
  return fitting(sections[name] as Schema, hints, name);
}
