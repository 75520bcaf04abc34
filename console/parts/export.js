import { open } from "../core/api.js";

/** Saves the answer of a route as a file. */
export async function saveExport(route, input, name) {
  const answer = await open(route, input);
  saveBlob(await answer.blob(), name);
}

/** Offers bytes as a file. The name has only letters, digits, dots and dashes. */
function saveBlob(blob, name) {
  const address = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
