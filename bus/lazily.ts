import { createRequire } from "node:module";

/** CommonJS packages that most threads start without, and that load in about 20 ms. They open no connection. */
interface Packages {
  readonly ajv: typeof import("ajv");
  readonly yaml: typeof import("yaml");
}

const requireHere = createRequire(import.meta.url);

/** Returns a function that calls `make` on its first call and then returns the same value. */
export function lazily<T extends object>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** Returns a function that loads a package synchronously on its first call. */
export function lazyPackage<Name extends keyof Packages>(name: Name): () => Packages[Name] {
  return lazily(() => requireHere(name) as Packages[Name]);
}
