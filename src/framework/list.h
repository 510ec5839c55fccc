// SPDX-License-Identifier: Apache-2.0
// The one list of frameworks, of the tools around them and of the files that they write. A row names what lies in the
// folders beside this file: a new framework is its folder and its rows here. The modules below declare what they ask of
// a row (job/framework.h, job/format.h, emit/targets.h, why/speaker.h) and expand the list; the folders define it.
// This header includes nothing, and everybody may include it.
#pragma once

// clang-format off

// Frameworks that a job can be of: the id, and the stem of what its folder defines (NAME_facts, write_NAME). The first
// one's names are those of the canonical keys.
#define PLIMSOLL_FRAMEWORKS(ROW)        \
  ROW(kMegatronLm, megatron_lm)         \
  ROW(kMegatronBridge, megatron_bridge) \
  ROW(kTransformers, transformers)      \
  ROW(kFsdp2, fsdp2)                    \
  ROW(kDeepSpeed, deepspeed)            \
  ROW(kTorchtitan, torchtitan)

// Those that logs speak of (NAME_speaker), servers among them. A line that has the marks of two is of the first.
#define PLIMSOLL_SPEAKERS(ROW)          \
  ROW(kVllm, vllm)                      \
  ROW(kSglang, sglang)                  \
  ROW(kMegatronBridge, megatron_bridge) \
  ROW(kMegatronLm, megatron_lm)         \
  ROW(kTorchtitan, torchtitan)          \
  ROW(kDeepSpeed, deepspeed)            \
  ROW(kFsdp2, fsdp2)                    \
  ROW(kTransformers, transformers)      \
  ROW(kLightning, lightning)            \
  ROW(kJax, jax)

// Tools around Transformers' Trainer, whose keys are translated into its own (NAME_dialect of tools/dialects.h).
#define PLIMSOLL_DIALECTS(ROW)      \
  ROW(kAxolotl, axolotl)            \
  ROW(kLlamaFactory, llama_factory) \
  ROW(kMsSwift, ms_swift)           \
  ROW(kOumi, oumi)                  \
  ROW(kTorchtune, torchtune)        \
  ROW(kXtuner, xtuner)

// Kinds of files, and their readers.
#define PLIMSOLL_FORMATS(ROW)                                                                    \
  ROW(kMegatronArgs, read_megatron_args)           /* {"args": {"--num-layers": ...}} or YAML */ \
  ROW(kMegatronLog, read_megatron_log)             /* the arguments that it prints */            \
  ROW(kBridgeConfig, read_bridge_config)           /* YAML */                                    \
  ROW(kBridgeOverrides, read_bridge_overrides)     /* cfg.model.x = y lines */                   \
  ROW(kTrainingArguments, read_training_arguments) /* JSON, YAML or pickled */                   \
  ROW(kTrainerState, read_trainer_state)           /* trainer_state.json of a run */             \
  ROW(kAccelerateConfig, read_accelerate_config)   /* YAML, with FSDP or DeepSpeed */            \
  ROW(kPeftConfig, read_peft_config)               /* adapter_config.json */                     \
  ROW(kWandbConfig, read_wandb_config)             /* config.yaml of Weights & Biases */         \
  ROW(kDeepSpeedConfig, read_deepspeed_config)     /* JSON */                                    \
  ROW(kTorchtitanConfig, read_torchtitan_config)   /* TOML */                                    \
  ROW(kTorchtitanPython, read_torchtitan_python)   /* config_registry.py */                      \
  ROW(kNanotron, read_nanotron_config)             /* YAML */                                    \
  ROW(kGptNeox, read_gpt_neox_config)              /* YAML */                                    \
  ROW(kPrimus, read_primus_config)                 /* YAML */                                    \
  ROW(kNemoRl, read_nemo_rl_config)                /* YAML: supervised and preference training */ \
  ROW(kPrimeRl, read_prime_rl_config)              /* TOML of its SFT */                         \
  ROW(kVerlSft, read_verl_sft_config)              /* Hydra keys */                              \
  ROW(kByNames, read_by_names)                     /* a tool that is not known */                \
  ROW(kPythonConfig, read_python_config)           /* Python that only assigns */                \
  ROW(kLaunchScript, read_launch_script)           /* a shell script that starts a trainer */

// What a file is known by, in the order in which the signs are tried; job/format.h says what the strengths mean.
#define PLIMSOLL_TEXT_SIGNS(ROW)                           \
  ROW(kTrainingArguments, kBytes, is_saved_arguments)      \
  ROW(kMegatronLog, kLog, is_megatron_log)                 \
  ROW(kTorchtitanPython, kText, is_torchtitan_registry)    \
  ROW(kPythonConfig, kText, is_python_config)              \
  ROW(kLaunchScript, kText, is_manifest)                   \
  ROW(kLaunchScript, kCommands, has_megatron_flags)        \
  ROW(kBridgeOverrides, kLines, has_override_lines)
#define PLIMSOLL_TABLE_SIGNS(ROW)                           \
  ROW(kMegatronArgs, kSure, has_table_of_arguments)         \
  ROW(kSafetensorsIndex, kSure, is_index_of_checkpoint)     \
  ROW(kWandbConfig, kSure, is_wandb_config)                 \
  ROW(kTrainerState, kSure, is_trainer_state)               \
  ROW(kPeftConfig, kSure, is_peft_config)                   \
  ROW(kJob, kSure, names_framework)                         \
  ROW(kPrimus, kSure, is_primus)                            \
  ROW(kNemoRl, kTool, is_nemo_rl)                           \
  ROW(kVerlSft, kTool, is_verl_sft)                         \
  ROW(kNanotron, kTool, is_nanotron)                        \
  ROW(kGptNeox, kTool, is_gpt_neox)                         \
  ROW(kAxolotl, kTool, is_axolotl)                          \
  ROW(kLlamaFactory, kTool, is_llama_factory)               \
  ROW(kMsSwift, kTool, is_ms_swift)                         \
  ROW(kOumi, kTool, is_oumi)                                \
  ROW(kTorchtune, kTool, is_torchtune)                      \
  ROW(kXtuner, kTool, is_xtuner)                            \
  ROW(kPrimeRl, kTypical, is_prime_rl_sft)                  \
  ROW(kTorchtitanConfig, kTypical, is_torchtitan)           \
  ROW(kAccelerateConfig, kTypical, is_accelerate)           \
  ROW(kBridgeConfig, kCommon, is_bridge)                    \
  ROW(kDeepSpeedConfig, kCommon, is_deepspeed)              \
  ROW(kJob, kCommon, has_sections_of_job)                   \
  ROW(kTrainingArguments, kCommon, is_training_arguments)   \
  ROW(kMegatronArgs, kCommon, is_megatron_args)

// clang-format on
