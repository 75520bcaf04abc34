import { documentCorpus } from "./document-vectors.ts";
import { memoryCorpus } from "./memory-vectors.ts";
import type { TextCorpus } from "./text-corpus.ts";

/** Every corpus. */
export const textCorpora: readonly TextCorpus[] = [documentCorpus, memoryCorpus];
