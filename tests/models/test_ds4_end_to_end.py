"""Engine and actor, each its own way, over refits: one set of bits."""

from __future__ import annotations

import pytest
import torch

from samebits.actor.actor import NativeActor
from samebits.actor.protocol import Tokens
from samebits.engine.native import NativeEngine
from samebits.engine.protocol import Request, WholeSequence
from samebits.models import open_folder, save_folder, seeded_config, seeded_weights
from samebits.recipe.model import Actor, Ds4Shape, Model, NativeSettings
from samebits.recipe.sampling import CONFORMING

SHAPE = Ds4Shape(
    vocab_size=64,
    hidden_size=64,
    num_attention_heads=4,
    head_dim=32,
    qk_rope_head_dim=16,
    q_lora_rank=32,
    o_groups=2,
    o_lora_rank=32,
    sliding_window=8,
    compress_ratios=[0, 4, 16, 4],
    index_n_heads=2,
    index_head_dim=16,
    index_topk=4,
    n_routed_experts=8,
    num_experts_per_tok=3,
    moe_intermediate_size=32,
    num_hash_layers=2,
    swiglu_limit=0.5,
    max_position_embeddings=128,
    fp8_block=32,
    kv_cache_format="fp8_ds_mla",
    kv_cache_block=16,
    initializer_range=0.1,
    lm_head_std=0.3,
    selection_bias=512.0,
)
SLOTS = 96
ENGINE = NativeSettings(
    max_model_len=SLOTS, max_num_seqs=6, max_num_batched_tokens=24, block_size=16, num_gpu_blocks=46, threads=1
).model_dump()
ACTOR = Actor(threads=1, learning_rate=1e-2, recompute_pack=3, train_pack=4).model_dump()


def model(**changed) -> Model:
    return Model(family="ds4", source="seeded", seed=5, ds4=SHAPE.model_copy(update=changed))


def gate(settings):
    return {name: [] if value is None else [value] for name, value in settings.items()}


@pytest.mark.parametrize(
    "changed", [{}, {"fp8_scale": "float32", "kv_cache_format": "auto"}, {"fp8_block": 0}], ids=str
)
def test_rollout_score_recompute_and_training_forward_agree_over_refits(changed, tmp_path):
    folder = tmp_path / "model"
    save_folder(folder, seeded_config(model(**changed)), seeded_weights(model(**changed)))
    engine = NativeEngine(folder, op_set="native", settings=ENGINE, gate=gate(ENGINE))
    actor = NativeActor.open(folder, "native", ACTOR, SLOTS, gate(ACTOR))
    generator = torch.Generator().manual_seed(3)
    requests = [
        Request(
            request_id=str(index),
            prompt_token_ids=torch.randint(0, 64, (length,), generator=generator).tolist(),
            max_tokens=30,
            seed=index,
            stop_token_ids=[],
            sampling=CONFORMING,
            arrival_step=index,
        )
        for index, length in enumerate((3, 4, 50, 5, 6, 40))
    ]
    previous: dict[str, str] = {}
    for version in range(2):
        generated = engine.generate(requests, version)
        assert generated.counters.preemptions > 0
        assert generated.counters.chunked_prefills > 0
        trajectories = [
            Tokens(
                request_id=request.request_id,
                token_ids=[*request.prompt_token_ids, *one.token_ids],
                prompt_length=len(request.prompt_token_ids),
                group=index // 3,
            )
            for index, (request, one) in enumerate(zip(requests, generated.trajectories, strict=True))
        ]
        whole = [WholeSequence(token_ids=one.token_ids, prompt_length=one.prompt_length) for one in trajectories]
        scored = engine.score(whole, version)
        recomputed = actor.recompute(trajectories, version)
        trained = actor.train_forward(trajectories, [1.0, 0.0, 0.5, 0.0, 1.0, 0.2], version)
        assert generated.sealed.tokens == 180
        assert (
            engine.reveal(generated.sealed.commitment)
            == engine.reveal(scored.commitment)
            == actor.reveal(recomputed.sealed.commitment)
            == actor.reveal(trained.sealed.commitment)
        )
        stepped = actor.step(version)
        assert stepped.off_policy_tokens == 0
        path = tmp_path / f"{version}.safetensors"
        sent = actor.export(path, version + 1)
        refitted = engine.refit(path, version + 1)
        assert refitted.arrived == refitted.loaded == sent.deployed
        assert set(sent.frozen) == {
            name for name in sent.deployed if "indexer" in name or "tid2eid" in name or "e_score" in name
        }
        moved = {name for name in sent.master if previous and sent.master[name] != previous[name]}
        assert not previous or moved == sent.master.keys() - sent.frozen.keys()
        previous = dict(sent.master)


def test_probing_each_layer_moves_both_sides(tmp_path):
    folder = tmp_path / "model"
    save_folder(folder, seeded_config(model()), seeded_weights(model()))
    actor = NativeActor.open(folder, "native", ACTOR, SLOTS, gate(ACTOR))
    tokens = torch.randint(0, 64, (80,), generator=torch.Generator().manual_seed(1)).tolist()
    one = [Tokens(request_id="0", token_ids=tokens, prompt_length=20, group=0)]
    for layer in range(4):
        probed = actor.probe(layer, one, 0)
        assert probed.recompute == probed.train
        assert probed.recompute_probed == probed.train_probed
        changed = sum(a != b for a, b in zip(probed.recompute[0], probed.recompute_probed[0], strict=True))
        assert changed > 30


def test_a_folder_holds_fp8_values_and_scales(tmp_path):
    save_folder(tmp_path, seeded_config(model()), seeded_weights(model()))
    decoder, weights = open_folder(tmp_path)
    name = "model.layers.0.mlp.experts.down_proj"
    assert weights[name].dtype == torch.float8_e4m3fn
    assert weights[f"{name}_scale_inv"].dtype == torch.float8_e8m0fnu
    assert weights["model.layers.0.mlp.gate.tid2eid"].dtype == torch.int64
    assert weights["model.layers.0.self_attn.sinks"].dtype == torch.float32
    assert weights["lm_head.weight"].dtype == torch.bfloat16
    assert decoder.parameters(weights)[name].dtype == torch.bfloat16
