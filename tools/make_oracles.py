#!/usr/bin/env python3
"""Makes tests/data/oracles: tiny seeded models of families and position scalings that the zoo lacks, each with reference outputs of
Hugging Face transformers in ref/ (same files as the zoo's; Hessians as products with a few vectors). tests/golden/model,
tests/golden/calib and tests/e2e/app discover the folders.

    pip install torch transformers tokenizers safetensors numpy && tools/make_oracles.py [FOLDER]

Weights are random (seeded), stored as float16 or bfloat16; the reference runs on the stored weights in float32 on the CPU with
eager attention. The text is tests/data/text/eval.txt, cut into windows as the zoo's perplexity rule says, without BOS.
"""
import json
import pathlib
import shutil
import sys

import numpy as np
import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/data/oracles"
TEXT = ROOT / "tests/data/text/eval.txt"
VOCAB = 320
WINDOW = 128
CHOSEN = (0, 5)  # windows with full reference outputs, and those of the Hessians
PROBES = 2  # columns of signs that a Hessian is multiplied with
LOGIT_POSITIONS = list(range(WINDOW - 4, WINDOW))
HIDDEN_POSITIONS = [0, 1, 31, 32, 63, WINDOW - 1]

COMMON = dict(vocab_size=VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, head_dim=16, max_position_embeddings=256, rms_norm_eps=1e-5, bos_token_id=0,
              eos_token_id=1, pad_token_id=None, attn_implementation="eager")
EXPERTS = dict(num_experts_per_tok=2)


def rope(kind, **more):
    return dict(rope_parameters=dict(rope_type=kind, rope_theta=10000.0, **more))


# name: (class prefix, dtype, published spelling of the position scaling, configuration)
MODELS = {
    "mistral": ("Mistral", "bfloat16", True, dict(sliding_window=24, tie_word_embeddings=False)),
    "mixtral": ("Mixtral", "float16", True, dict(num_local_experts=4, tie_word_embeddings=False, **EXPERTS)),
    "phi3": ("Phi3", "bfloat16", True, dict(tie_word_embeddings=False, sliding_window=None)),
    "qwen3_next": ("Qwen3Next", "bfloat16", True, dict(
        layer_types=["linear_attention", "full_attention"], linear_num_key_heads=2, linear_num_value_heads=4,
        linear_key_head_dim=8, linear_value_head_dim=8, linear_conv_kernel_dim=4, num_experts=4, moe_intermediate_size=32,
        shared_expert_intermediate_size=32, partial_rotary_factor=0.25, norm_topk_prob=True, decoder_sparse_step=1,
        tie_word_embeddings=False, **EXPERTS)),
    "llama_linear": ("Llama", "float16", True, dict(tie_word_embeddings=True, **rope("linear", factor=4.0))),
    "llama_yarn": ("Llama", "bfloat16", True, dict(tie_word_embeddings=True, **rope(
        "yarn", factor=8.0, original_max_position_embeddings=32))),
    "llama_dynamic": ("Llama", "float16", False, dict(tie_word_embeddings=True, **rope("dynamic", factor=2.0))),
}


def train_tokenizer(folder):
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=["<s>", "</s>"], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train([str(TEXT)], trainer)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text('{"bos_token": "<s>", "eos_token": "</s>", "add_bos_token": false}\n')
    return tokenizer


def publish_spelling(folder):
    """rope_theta and rope_scaling, as published checkpoints have them, instead of rope_parameters."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    parameters = config.pop("rope_parameters", None)
    if parameters:
        config["rope_theta"] = parameters.pop("rope_theta")
        if "partial_rotary_factor" in parameters:
            config["partial_rotary_factor"] = parameters.pop("partial_rotary_factor")
        if parameters.get("rope_type", "default") != "default":
            config["rope_scaling"] = parameters
    path.write_text(json.dumps(config, indent=1) + "\n")


def make_model(name, folder):
    prefix, dtype, published, options = MODELS[name]
    config = getattr(transformers, prefix + "Config")(**{**COMMON, **options})
    torch.manual_seed(sum(map(ord, name)))
    model = getattr(transformers, prefix + "ForCausalLM")(config)
    with torch.no_grad():
        for key, value in model.named_parameters():
            if value.ndim > 1:
                value.normal_(0, 1.2 / value.shape[-1] ** 0.5)
            elif "norm" in key:
                value.add_(torch.randn_like(value) * 0.2)
    model.to(getattr(torch, dtype)).save_pretrained(folder)
    for extra in folder.glob("generation_config.json"):
        extra.unlink()
    if published:
        publish_spelling(folder)
    return getattr(transformers, prefix + "ForCausalLM").from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval()


def run(model, ids):
    """Logits and the hidden states: input of layer 0, output of each layer, output of the final norm."""
    states = []
    hooks = [model.model.layers[0].register_forward_pre_hook(lambda m, a, k: states.append(a[0] if a else k["hidden_states"]),
                                                             with_kwargs=True)]
    for module in [*model.model.layers, model.model.norm]:
        hooks.append(module.register_forward_hook(lambda m, a, out: states.append(out[0] if isinstance(out, tuple) else out)))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(ids)[None], use_cache=False).logits[0]
    for hook in hooks:
        hook.remove()
    return logits, [s.reshape(-1, s.shape[-1]) for s in states]


def nll_of(logits, ids):
    logp = torch.log_softmax(logits.double(), -1)
    return -logp[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


class HessianSums:
    """Sums x x^T in float64 over the inputs of the linear layers, by (layer, role, expert); roles as in
    include/cortiq/model/roles.hpp. What reads the same input is hooked once."""
    ROLES = {"self_attn.q_proj": "in", "self_attn.qkv_proj": "in", "linear_attn.in_proj_qkvz": "in",
             "self_attn.o_proj": "mixout", "linear_attn.out_proj": "mixout",
             "mlp.gate_proj": "mlp", "mlp.gate_up_proj": "mlp", "mlp.gate": "mlp",
             "mlp.down_proj": "down", "mlp.shared_expert.down_proj": "shared-down"}

    def __init__(self, model):
        self.sums, self.counts, self.hooks = {}, {}, []
        for layer, block in enumerate(model.model.layers):
            for name, module in block.named_modules():
                if name in self.ROLES:
                    self.hooks.append(module.register_forward_pre_hook(self.linear(layer, self.ROLES[name])))
                if name == "mlp.experts":
                    self.hooks.append(module.register_forward_pre_hook(self.experts(layer), with_kwargs=True))

    def add(self, place, x):
        x = x.detach().reshape(-1, x.shape[-1]).double()
        self.sums[place] = self.sums.get(place, 0) + x.T @ x
        self.counts[place] = self.counts.get(place, 0) + len(x)

    def linear(self, layer, role):
        return lambda module, inputs: self.add((layer, role, -1), inputs[0])

    def experts(self, layer):
        """An expert's rows, without the routing weight, and what its down projection reads of them."""
        def hook(module, inputs, more):
            hidden, chosen = (*inputs, *more.values())[:2]
            for expert in range(module.num_experts):
                x = hidden[(chosen == expert).any(-1)]
                gate, up = torch.nn.functional.linear(x, module.gate_up_proj[expert]).chunk(2, -1)
                self.add((layer, "expert-in", expert), x)
                self.add((layer, "expert-down", expert), module.act_fn(gate) * up)
        return hook

    def remove(self):
        for hook in self.hooks:
            hook.remove()


def write_hessian_probes(model, windows, folder):
    """H of every input over the chosen windows, as H V for a few columns of signs, Frobenius norm and trace: |(H - H') V| estimates
    |H - H'|. hessian_probes.f64 holds H V [n, PROBES] of the items one after the other. Returns rows per expert by layer."""
    sums = HessianSums(model)
    for w in CHOSEN:
        run(model, windows[w])
    sums.remove()
    generator = np.random.default_rng(20)
    widths = sorted({h.shape[0] for h in sums.sums.values()})
    signs = {n: generator.choice([-1.0, 1.0], (n, PROBES)) for n in widths}
    items, products = [], []
    for (layer, role, expert), h in sums.sums.items():
        h = h.numpy()
        products.append(h @ signs[len(h)])
        items.append(dict(layer=layer, role=role, expert=expert, n=len(h), count=sums.counts[layer, role, expert],
                          norm=float(np.linalg.norm(h)), trace=float(np.trace(h))))
    np.concatenate([p.ravel() for p in products]).astype("<f8").tofile(folder / "hessian_probes.f64")
    probes = {str(n): ["".join("-+"[int(v > 0)] for v in column) for column in signs[n].T] for n in widths}
    lines = ",\n  ".join(json.dumps(item) for item in items)
    (folder / "hessian_probes.json").write_text(
        f'{{\n "file": "hessian_probes.f64",\n "probes": {json.dumps(probes)},\n "items": [\n  {lines}\n ]\n}}\n')
    counts = {}
    for (layer, role, expert), count in sums.counts.items():
        if role == "expert-down":
            counts.setdefault(str(layer), []).append(count)
    return counts


def describe(array, name, **more):
    return dict(file=name, dtype=array.dtype.str, shape=list(array.shape), **more)


def write_reference(model, windows, folder):
    folder.mkdir()
    logits, nlls, hidden = [], [], None
    for w in CHOSEN:
        out, states = run(model, windows[w])
        logits.append(out[LOGIT_POSITIONS].numpy())
        nlls.append(nll_of(out, windows[w]).float().numpy())
        if hidden is None:
            hidden = np.stack([s[HIDDEN_POSITIONS].numpy() for s in states])
    arrays = {"ids.i32": np.array([windows[w] for w in CHOSEN], "<i4"), "logits.f32": np.stack(logits).astype("<f4"),
              "nll.f32": np.stack(nlls).astype("<f4"), "hidden.f32": hidden.astype("<f4")}
    for name, array in arrays.items():
        array.tofile(folder / name)
    means = [float(nll_of(run(model, w)[0], w).mean()) for w in windows]
    mean = float(np.mean(means))
    experts = write_hessian_probes(model, windows, folder)
    ref = dict(forward=f"HF transformers {transformers.__version__}, torch {torch.__version__} CPU, float32, eager",
               window_len=WINDOW, eval_windows=list(CHOSEN), ids=describe(arrays["ids.i32"], "ids.i32"),
               logits=describe(arrays["logits.f32"], "logits.f32", positions=LOGIT_POSITIONS),
               nll=describe(arrays["nll.f32"], "nll.f32"),
               hidden=describe(arrays["hidden.f32"], "hidden.f32", window=CHOSEN[0], positions=HIDDEN_POSITIONS),
               **(dict(expert_counts_two_windows=experts) if experts else {}),
               eval=dict(ppl=float(np.exp(mean)), mean_nll=mean, windows=len(windows), scored_tokens=len(windows) * (WINDOW - 1)))
    (folder / "ref.json").write_text(json.dumps(ref, indent=1) + "\n")


def main():
    transformers.logging.set_verbosity_error()
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else OUT
    shutil.rmtree(out, ignore_errors=True)
    for name in MODELS:
        folder = out / name
        folder.mkdir(parents=True)
        tokenizer = train_tokenizer(folder)
        model = make_model(name, folder)
        ids = tokenizer.encode(TEXT.read_text(), add_special_tokens=False).ids
        windows = [ids[i:i + WINDOW] for i in range(0, len(ids) - WINDOW + 1, WINDOW)]
        write_reference(model, windows, folder / "ref")
        print(name, f"{sum(p.numel() for p in model.parameters())} parameters,", len(windows), "windows",
              json.loads((folder / "ref/ref.json").read_text())["eval"]["ppl"])


if __name__ == "__main__":
    main()
