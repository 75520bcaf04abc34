import { SvcError } from "../../bus/errors.ts";

/** Runs a write. Returns false if it was refused because another writer has changed the row since it was read. */
export async function unlessChanged(write: () => Promise<unknown>): Promise<boolean> {
  try {
    await write();
    return true;
  } catch (error) {
    if (error instanceof SvcError && error.code === "conflict") return false;
    throw error;
  }
}
