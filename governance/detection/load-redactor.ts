import { commonDetectors } from "./common-detectors.ts";
import type { Detector } from "./detector.ts";
import { Redactor } from "./redactor.ts";

/** Returns the redactor with the detectors of the modules, and the three common ones for kinds that no module detects. */
export async function loadRedactor(files: readonly string[]): Promise<Redactor> {
  const modules = (await Promise.all(files.map((file) => import(file)))) as { detectors?: unknown }[];
  const own = modules.flatMap(({ detectors }, at) => checked(detectors, files[at] as string));
  const kinds = new Set(own.map(({ kind }) => kind));
  return new Redactor([...own, ...commonDetectors.filter(({ kind }) => !kinds.has(kind))]);
}

const kindForm = /^[A-Z][A-Z0-9_]{0,63}$/;

/** Returns the detectors that a module exports. Throws if they are malformed, because a plugin may be untyped JavaScript. */
function checked(exported: unknown, file: string): readonly Detector[] {
  const isDetector = (value: unknown): value is Detector => {
    const { kind, first, match, mayBegin } = (value ?? {}) as Partial<Detector>;
    const hasFunctions = typeof first === "function" && typeof match === "function";
    return hasFunctions && ["function", "undefined"].includes(typeof mayBegin) && kindForm.test(String(kind));
  };
  if (Array.isArray(exported) && exported.every(isDetector)) return exported;
  throw new Error(`${file} must export detectors: a list of objects with kind, first and match`);
}
