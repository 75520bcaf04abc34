/** A fault of a bundle. `path` names its file, or is empty. */
export interface BundleFault {
  readonly path: string;
  readonly message: string;
}

/** Max faults that are reported of one bundle. */
const faultsMax = 50;
const pathCharsMax = 200;

/** Collects the faults of a bundle. */
export class Faults {
  readonly all: BundleFault[] = [];

  add(path: string, message: string): void {
    if (this.all.length < faultsMax) this.all.push({ path: path.slice(0, pathCharsMax).toWellFormed(), message });
  }
}
