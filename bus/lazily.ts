import { createRequire } from "node:module";

/** Packages in CommonJS that most threads start without, and that load in some 20 ms. They open no connection. */
interface Packages {
  readonly ajv: typeof import("ajv");
  readonly yaml: typeof import("yaml");
}

const requireHere = createRequire(import.meta.url);

/** What `make` makes, made when it is first asked for and then kept. */
export function lazily<T extends object>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** A package, loaded when it is first asked for, and at once, so that whoever asks need not wait. */
export function lazyPackage<Name extends keyof Packages>(name: Name): () => Packages[Name] {
  return lazily(() => requireHere(name) as Packages[Name]);
}
