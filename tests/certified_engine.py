"""What the engine of the adapters' test row is made with, whichever framework asks."""

ARGUMENTS = {
    "attention_backend": "FLASH_ATTN",
    "compilation_config": {"cudagraph_mode": "FULL", "custom_ops": ["none"], "mode": 0},
    "data_parallel_size": 1,
    "dtype": "bfloat16",
    "enable_chunked_prefill": True,
    "enable_expert_parallel": False,
    "enable_lora": False,
    "enable_prefix_caching": False,
    "enforce_eager": False,
    "gpu_memory_utilization": 0.5,
    "kernel_config": {"ir_op_priority": {"rms_norm": ["native"]}},
    "kv_cache_dtype": "auto",
    "logprobs_mode": "raw_logprobs",
    "max_model_len": 1024,
    "max_num_seqs": 64,
    "num_gpu_blocks_override": 512,
    "pipeline_parallel_size": 1,
    "tensor_parallel_size": 1,
}

ENVIRONMENT = {
    "OMP_NUM_THREADS": "4",
    "VLLM_BATCH_INVARIANT": "1",
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_V2_MODEL_RUNNER": "1",
}
