import { digestJson } from "../canonical-json.ts";
import type { CompileContext, Refuse } from "../fields/section.ts";
import { type Draft, refuseDraft } from "../parse/draft.ts";
import { type Path, type Problem, writePath } from "../problems.ts";
import type { Registries, ToolSpec } from "../registries.ts";
import { type CompiledSections, type Manifest, sections } from "../schema/manifest.ts";
import { Refuted } from "../schema/refuted.ts";
import { exitPlanModeName } from "../sections/permissions.ts";
import { promptPartCharsMax } from "../sections/system-prompt.ts";
import { asDeclared } from "../sections/tool-effects.ts";
import { bindTools } from "../sections/tools.ts";
import { promptKeys, soulKey } from "../sources/object-keys.ts";
import type { CompiledAgent } from "./compiled.ts";

/** Tenant, version and referenced texts of a manifest. */
export interface CompileSource {
  readonly tenantId: string;
  /** Version in the tenant's store, null for manifests of the operator. */
  readonly version: number | null;
  /** True for a manifest that is about to be stored; absent, its version says it. */
  readonly isStored?: boolean;
  /** Texts by object key, for the keys that neededTexts returns. */
  readonly texts: ReadonlyMap<string, string>;
}

/** Compiles a parsed manifest. Throws invalid_manifest with all problems, in the order of the fields. */
export function compile(manifest: Manifest, registries: Registries, source: CompileSource): CompiledAgent {
  const refuted = new Refuted();
  const compiling = new Compiling(manifest, refuted, registries, source);
  const parts = compiling.sections();
  const { problems, emptyRules } = compiling;
  refuseDraft({ manifest, refuted, problems, origin: "", isCompiled: true });
  return {
    ...(Object.assign({}, ...parts) as CompiledSections),
    name: manifest.metadata.name,
    version: source.version,
    digest: digestJson(manifest),
    manifest,
    subAgents: [],
    emptyRules,
  };
}

/**
 * Returns the additional compile problems of a manifest that was already refused, without consequences of the earlier
 * problems.
 */
export function draftProblems(
  { manifest, refuted }: Draft,
  registries: Registries,
  source: CompileSource,
): readonly Problem[] {
  const compiling = new Compiling(manifest, refuted, registries, source);
  try {
    compiling.sections();
  } catch {
    // A section may depend on a rule that this manifest breaks.
  }
  return compiling.problems;
}

/** One manifest during its compilation. */
class Compiling {
  readonly problems: Problem[] = [];
  readonly emptyRules: { rule: string; kind: string }[] = [];
  readonly #manifest: Manifest;
  readonly #refuted: Refuted;
  readonly #registries: Registries;
  readonly #source: CompileSource;

  constructor(manifest: Manifest, refuted: Refuted, registries: Registries, source: CompileSource) {
    this.#manifest = manifest;
    this.#refuted = refuted;
    this.#registries = registries;
    this.#source = source;
  }

  /** Returns the compiled part of each section. */
  sections(): readonly (object | null)[] {
    const { spec } = this.#manifest;
    const refuted = this.#refuted;
    const { value: tools, reads } = refuted.watch(() => this.#boundTools());
    const context: CompileContext = {
      tenantId: this.#source.tenantId,
      isStored: this.#source.isStored ?? this.#source.version !== null,
      registries: this.#registries,
      get tools() {
        refuted.alsoRead(reads);
        return tools;
      },
      soul: this.#source.texts.get(soulKey(this.#source.tenantId)) ?? "",
      readText: (file, loc) => readText(file, loc, this.#source, this.#refuse),
      refuse: this.#refuse,
      selectsNothing: (rule, kind) => this.emptyRules.push({ rule, kind }),
    };
    return sections.map((section) => refuted.watch(() => section.compile(spec, context)).value);
  }

  /** Returns all tools that the manifest binds, in the order of the prompt. Refuses a name that is taken. */
  #boundTools(): readonly ToolSpec[] {
    const { spec } = this.#manifest;
    const context = { tenantId: this.#source.tenantId, registries: this.#registries, refuse: this.#refuse };
    const bound = bindTools(spec, this.#registries, this.#refuse);
    const names = new Set([...bound.map(({ name }) => name), exitPlanModeName]);
    for (const { loc, tool } of sections.flatMap((section) => section.binds(spec, context))) {
      if (names.has(tool.name)) this.#refuse([...loc, "name"], "is the name of another tool", "conflict");
      names.add(tool.name);
      bound.push(asDeclared(tool, spec));
    }
    return bound;
  }

  readonly #refuse: Refuse = (at, says, type) => {
    const loc = this.#refuted.locate(this.#manifest, at);
    if (!this.#refuted.breaksHere(loc)) this.problems.push({ loc, msg: `${writePath(loc)} ${says}.`, type });
  };
}

function readText(file: string, loc: Path, { tenantId, texts }: CompileSource, refuse: Refuse): string {
  const key = promptKeys(tenantId, file).find((candidate) => texts.has(candidate));
  const text = key === undefined ? undefined : texts.get(key);
  if (text === undefined) refuse(loc, `names the object ${file}, which is not there`, "unresolved");
  else if (text.length > promptPartCharsMax)
    refuse(loc, `names an object of more than ${promptPartCharsMax} characters`, "too_long");
  return text ?? "";
}
