// What svc and the child process that reads a file send each other: a header in JSON, then the bytes of the file; and the
// outcome in JSON.

/** Types of files that become documents. */
export const documentTypes = {
  "text/plain": "text",
  "text/markdown": "text",
  "text/html": "html",
  "application/pdf": "pdf",
  "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
} as const;

/** The form of a file that a child process reads. */
export type ExtractedForm = Exclude<(typeof documentTypes)[keyof typeof documentTypes], "text">;

/** The text of a file as Markdown, or why there is none. */
export type Extracted = { readonly title: string; readonly text: string } | { readonly refused: string };

/** Max pages of a PDF (decision 138). */
export const pagesMax = 500;
/** Max characters of the text, as in POST /documents. */
export const extractedCharsMax = 750_000;
/** Max bytes of all entries of a zip file, and their number. */
export const inflatedBytesMax = 100 * 1024 * 1024;
export const entriesMax = 2_000;
