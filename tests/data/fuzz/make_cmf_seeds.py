#!/usr/bin/env python3
"""Makes the seeds of cmf_reader_fuzz and cmf_header_fuzz from the format's description (cmf.md), a few KB each."""
import json
import pathlib
import struct

HERE = pathlib.Path(__file__).parent
ARCH = {"arch_name": "llama", "hidden_size": 32, "intermediate_size": 64, "num_layers": 1, "num_attention_heads": 2,
        "num_kv_heads": 1, "head_dim": 16, "vocab_size": 9, "layer_types": ["FullAttention"], "rms_norm_eps": 1e-6,
        "max_position_embeddings": 64}
HEADER = {"format": "cmf", "version": 2, "arch": ARCH, "quant_type": "F16"}


def make_file(tensors, header=HEADER, features=1, masks=b"", vocab=b"", index=b""):
    """tensors: (name, dtype id, shape, payload). Hashes are left out (0): the fuzzer could not repair them."""
    text = json.dumps(header, separators=(",", ":")).encode()
    records, pool, data = b"", b"", b""
    for name, dtype, shape, payload in tensors:
        data += b"\0" * (-len(data) % 64)
        dims = list(shape) + [0] * (6 - len(shape))
        records += struct.pack("<IHBB6IQQQ", len(pool), len(name), dtype, len(shape), *dims, len(data), len(payload), 0)
        data += payload
        pool += name.encode()
    directory = struct.pack("<QQ", len(tensors), 16 + 56 * len(tensors)) + records + pool
    at = 128 + len(text) + len(directory)
    data_off = (at + 4095) // 4096 * 4096
    body = text + directory + b"\0" * (data_off - at) + data
    end, sections = 128 + len(body), []
    for section in (masks, vocab, index):
        sections += [end if section else 0, len(section)]
        body += section
        end += len(section)
    return struct.pack("<4sIII14Q", b"CMF\x01", 2, 0, features, 128, len(text), 128 + len(text), len(directory),
                       data_off, len(data), *sections, 0, 0) + body


def reader_seeds():
    meta = b'{"masks":[{"name":"m","blob_off":64,"blob_len":8}]}'
    masks = struct.pack("<II", 1, len(meta)) + meta + bytes(16)
    index = struct.pack("<IIIIII", 1, 0, 0, 0, 2, 1) + bytes(8)
    return {
        "plain": make_file([("a", 1, (3, 5), bytes(30)), ("b", 4, (1, 32), bytes(18))], vocab=b"{}"),
        "masks": make_file([("a", 6, (4,), b"abcd")], features=3, masks=masks, index=index),
        "vbit": make_file([("v", 8, (2, 32), b"\x03\x05" + bytes(36)),
                           ("o", 10, (1, 32), b"\x04" + bytes(2) + struct.pack("<II", 0, 16) + bytes(16))], features=5),
        "overlays": make_file([("s", 13, (1, 32), bytes(6) + struct.pack("<IIH", 1, 31, 7)),
                               ("t", 14, (1, 32), bytes(9) + struct.pack("<IIHH", 0, 1, 31, 7))]),
        "tiled": make_file([("q", 15, (2, 64), bytes(2 * (32 + 4 + 2))), ("r", 16, (2, 64), bytes(2 * (16 + 4 + 2))),
                            ("m", 21, (1, 32), bytes(17))]),
    }


def header_seeds():
    rich = json.loads(json.dumps(HEADER))
    rich["arch"].update({"moe": {"num_experts": 4, "top_k": 2, "moe_intermediate_size": 8}, "linear_core":
                         {"kind": "gated_delta_net", "num_heads": 2}, "linear_conv_kernel_dim": None,
                         "rope_freq_factors": [1.0, 2.5]})
    rich.update({"skills": [{"id": "s", "kind": "k"}], "shard": {"no": 1, "count": 2}, "x": 2**64 - 1, "y": "\u00e9",
                 "provenance": {"tool": "t", "f": 1e-300}, "tokenizer_config": {"eos_token_ids": [1, 2]}})
    return {"plain": json.dumps(HEADER).encode(), "rich": json.dumps(rich).encode()}


for folder, seeds in (("cmf_reader", reader_seeds()), ("cmf_header", header_seeds())):
    (HERE / folder).mkdir(exist_ok=True)
    for name, content in seeds.items():
        (HERE / folder / name).write_bytes(content)
