// A PNG with a text inside: as an iTXt chunk, UTF-8 and not compressed, right after the header (PNG, third edition, 11.3.3).
const HEADER = 33; // bytes: the signature and IHDR

async function described(blob, text) {
  const bytes = new Uint8Array(await blob.arrayBuffer()), content = new TextEncoder().encode(`iTXtDescription\0\0\0\0\0${text}`);
  const chunk = new Uint8Array(content.length + 8), view = new DataView(chunk.buffer);
  view.setUint32(0, content.length - 4);
  chunk.set(content, 4);
  view.setUint32(content.length + 4, crc32(content));
  return new Blob([bytes.subarray(0, HEADER), chunk, bytes.subarray(HEADER)], { type: "image/png" });
}

function crc32(bytes) {
  let crc = -1;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}
