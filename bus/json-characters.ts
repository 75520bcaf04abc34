// Structural characters of JSON, as UTF-16 codes (RFC 8259).

export const quote = 0x22;
export const comma = 0x2c;
export const minus = 0x2d;
export const point = 0x2e;
const digit0 = 0x30;
const digit9 = 0x39;
export const exponent = 0x45;
export const smallExponent = 0x65;
export const openList = 0x5b;
export const closeList = 0x5d;
export const openObject = 0x7b;
export const closeObject = 0x7d;

/**
 * True if the character starts true, false or null. None of their other letters is t, f or n, so a scan that counts
 * these characters counts each word once.
 */
export function isFirstLetter(character: number): boolean {
  return character === 0x74 || character === 0x66 || character === 0x6e;
}

/** True for the digits 0 to 9. */
export function isDigit(character: number): boolean {
  return character >= digit0 && character <= digit9;
}
