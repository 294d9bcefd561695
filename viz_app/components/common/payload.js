// Reads what drawing/payload.py packed: {header fields…, arrays: {name: typed array}}.
const ARRAY_TYPES = { uint8: Uint8Array, float32: Float32Array, int32: Int32Array };

function unpack(data) {
  const length = new DataView(data.buffer, data.byteOffset, 4).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(data.subarray(4, 4 + length)));
  const body = data.slice(4 + length).buffer; // a copy, because typed arrays must be aligned
  const arrays = {};
  for (const [name, [type, shape, offset]] of Object.entries(header.arrays)) {
    arrays[name] = new ARRAY_TYPES[type](body, offset, shape.reduce((a, b) => a * b, 1));
  }
  return { ...header, arrays };
}
