import type { Scope } from "../../storage/store/store.ts";

/** A part of a store with the test's own reads or writes; other methods are its own. */
export function scopeWith<S extends Scope>(scope: S, own: Partial<Pick<Scope, "read" | "readLong" | "write">>): S {
  return new Proxy(scope, {
    get(target, property) {
      if (Object.hasOwn(own, property)) return own[property as "read" | "readLong" | "write"];
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}
