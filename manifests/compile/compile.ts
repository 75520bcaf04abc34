import { digestJson } from "../canonical-json.ts";
import type { CompileContext, Refuse } from "../fields/section.ts";
import { type Path, refuseProblems, writePath } from "../problems.ts";
import type { Registries, ToolSpec } from "../registries.ts";
import { type CompiledSections, type Manifest, sections } from "../schema/manifest.ts";
import { withClientTools } from "../sections/client-tools.ts";
import { withQueues } from "../sections/queues.ts";
import { promptPartCharsMax } from "../sections/system-prompt.ts";
import { bindTools } from "../sections/tools.ts";
import { promptKeys, soulKey } from "../sources/object-keys.ts";
import type { CompiledAgent } from "./compiled.ts";
import { unbuiltProblems } from "./unbuilt.ts";

/** Whose manifest it is and what goes with it. */
export interface CompileSource {
  readonly tenantId: string;
  /** The tenant store's version number, null for manifests of the operator. */
  readonly version: number | null;
  /** Texts by object key, of the keys that neededTexts names. */
  readonly texts: ReadonlyMap<string, string>;
}

/** Makes a parsed manifest ready to run. Throws invalid_manifest with every field that cannot be honoured. */
export function compile(manifest: Manifest, registries: Registries, source: CompileSource): CompiledAgent {
  const { tenantId, version, texts } = source;
  const problems = unbuiltProblems(manifest);
  const emptyRules: { rule: string; kind: string }[] = [];
  const refuse: Refuse = (loc, says, type) => problems.push({ loc, msg: `${writePath(loc)} ${says}.`, type });
  const context: CompileContext = {
    tenantId,
    registries,
    tools: boundTools(manifest, registries, refuse),
    soul: texts.get(soulKey(tenantId)) ?? "",
    readText: (file, loc) => readText(file, loc, source, refuse),
    refuse,
    selectsNothing: (rule, kind) => emptyRules.push({ rule, kind }),
  };
  const parts = sections.map((section) => section.compile(manifest.spec, context));
  refuseProblems(problems);
  return {
    ...(Object.assign({}, ...parts) as CompiledSections),
    name: manifest.metadata.name,
    version,
    digest: digestJson(manifest),
    manifest,
    members: [],
    emptyRules,
  };
}

/** Every tool that the manifest binds, in the order in which the model is told of them. */
function boundTools({ spec }: Manifest, registries: Registries, refuse: Refuse): readonly ToolSpec[] {
  const tools = withClientTools(bindTools(spec, registries, refuse), spec, refuse);
  return withQueues(tools, spec, registries, refuse);
}

function readText(file: string, loc: Path, { tenantId, texts }: CompileSource, refuse: Refuse): string {
  const key = promptKeys(tenantId, file).find((candidate) => texts.has(candidate));
  const text = key === undefined ? undefined : texts.get(key);
  if (text === undefined) refuse(loc, `names the object ${file}, which is not there`, "unresolved");
  else if (text.length > promptPartCharsMax)
    refuse(loc, `names an object of more than ${promptPartCharsMax} characters`, "too_long");
  return text ?? "";
}
