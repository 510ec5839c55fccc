#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Defects that an attack on version 0.1.0 found, each held by its cause and not by its input.

What other files hold already: every model under every framework and tiny vocabularies (catalogue_test.cpp), signals and
refused threads (process_test.py), files and links (files_test.py), idle settings (random_jobs_test.cpp)."""

import gzip
import json
import os
import pathlib
import resource
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import hostile
from hostile import PATIENCE, ROOT, Hostile, limited

OOM = (b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB "
       b"of which 1.06 GiB is free. Of the allocated memory 76.00 GiB is allocated by PyTorch, and 1.02 GiB is reserved "
       b"by PyTorch but unallocated.\n")


class Rows(Hostile):
    def peak(self, arguments):
        """The finished process, its seconds of processor time and its peak in MiB."""
        pid = os.fork()
        if pid == 0:
            os.chdir(self.folder)
            resource.setrlimit(resource.RLIMIT_CPU, (int(60 * PATIENCE),) * 2)
            with open("out", "wb") as out, open("err", "wb") as err:
                os.dup2(out.fileno(), 1)
                os.dup2(err.fileno(), 2)
            os.execv(hostile.PROGRAM, [hostile.PROGRAM, *map(str, arguments)])
        _, status, usage = os.wait4(pid, 0)
        return (os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss >> 10,
                (self.folder / "err").read_text(errors="replace"))

    def stays_small(self, name, content, verb="fit"):
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        code, seconds, mebibytes, err = self.peak([verb, path])
        self.assertIn(code, (0, 1, 2, 3, 4), err)
        self.assertLess(seconds, 20 * PATIENCE, name)
        if not hostile.SANITIZED:
            self.assertLess(mebibytes, 64 + 3 * len(content) / 2**20, name)
        return code, err

    def test_03_the_verdict_does_not_depend_on_the_ranks_shown(self):
        # The rank that is fullest by tensors is not the fullest by what the allocator reserves.
        for memory in range(13_000, 14_600, 100):
            job = self.write("job.toml", f'framework = "torchtitan"\nmodel = "smollm2-1.7b"\ngpu = "a100-pcie-80gb"\n'
                             f'gpu_memory = "{memory}MB"\ngpus = 4\nseq_length = 1024\nmicro_batch_size = 4\n'
                             "global_batch_size = 32\npipeline_model_parallel_size = 2\n")
            self.assertEqual(self.run_program(["fit", job]).returncode,
                             self.run_program(["fit", job, "--all-ranks"]).returncode, memory)

    def test_05_a_log_that_ends_early_is_called_damaged(self):
        whole = gzip.compress(b"step 1\n" * 5000 + OOM)
        damaged = whole[:len(whole) // 2]
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0xFF
        for content in (damaged, bytes(flipped), whole[:12]):
            (self.folder / "run.log.gz").write_bytes(content)
            done = self.run_program(["why", "run.log.gz"])
            self.assertRegex(done.stdout + done.stderr, "damaged|cut off|could not be read")

    def test_10_words_and_variables_of_a_script_have_a_budget(self):
        tail = "\npython pretrain_gpt.py --num-layers 2\n"
        self.stays_small("words.sh", '#!/bin/bash\nB="' + "x " * 90_000 + '"\n' + "e $B\n" * 20_000 + tail)
        self.stays_small("vars.sh", "#!/bin/bash\nB=" + "x" * 900_000 + "\n" +
                         "".join(f"v{i}=$B\n" for i in range(20_000)) + tail)
        self.stays_small("nested.sh", "#!/bin/bash\na=x\n" + "a=$a$a\n" * 60 + tail)

    def test_11_documents_cost_a_multiple_of_their_size(self):
        head = '{"framework":"megatron-lm",'
        self.stays_small("array.json", head + '"x":[' + "0," * 3_000_000 + "0]}")
        self.stays_small("empties.json", head + '"x":[' + "{}," * 1_000_000 + "0]}")
        self.stays_small("keys.json", head + ",".join(f'"k{i}":1' for i in range(400_000)) + "}")
        self.stays_small("array.toml", 'framework="megatron-lm"\nx=[' + "0," * 1_000_000 + "0]\n")
        self.stays_small("dotted.toml", 'framework="megatron-lm"\n' + "".join(f"a{i}.b.c.d=1\n" for i in range(100_000)))
        self.stays_small("keys.yaml", "framework: megatron-lm\n" + "".join(f"k{i}: 1\n" for i in range(100_000)))
        for name in ("blank.yaml", "blank.sh", "blank.log", "blank.json"):
            self.stays_small(name, "\n" * 20_000_000)
        self.stays_small("lists.toml", "[[job]]\n" * 300_000, verb="check")

    def test_12_a_schedule_of_many_micro_batches_is_answered_or_refused_with_words(self):
        job = self.write("job.toml", 'framework = "megatron-lm"\n[model]\nnum_layers = 4096\nhidden_size = 16\n'
                         "ffn_hidden_size = 16\nnum_attention_heads = 2\nvocab_size = 32000\n"
                         'max_position_embeddings = 4096\n[cluster]\ngpu = "a100-sxm-80gb"\ngpus = 2\n[parallel]\n'
                         'pipeline_model_parallel_size = 2\npipeline_schedule = "gpipe"\n[batch]\nseq_length = 16\n'
                         "micro_batch_size = 1\nglobal_batch_size = 4096\n[precision]\nbf16 = true\n")
        code, seconds, mebibytes, err = self.peak(["fit", job])
        self.assertIn(code, (1, 3), err)
        self.assertLess(seconds, 20 * PATIENCE)
        if not hostile.SANITIZED:
            self.assertLess(mebibytes, 512)

    def test_13_large_questions_end(self):
        run = self.write("run.toml", 'framework = "verl"\nmodel = "qwen2.5-7b"\ngpu = "h100"\ngpus = 1024\n'
                         "group_size = 64\nprompts_batch_size_for_trainer = 4096\ncompletion_mean = 8000\n"
                         "max_tokens = 32000\nprompt_mean = 500\n")
        config = self.write("config.json", json.dumps({
            "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048,
            "num_hidden_layers": 10000, "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536,
            "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
            "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3,
            "vocab_size": 129280, "max_position_embeddings": 163840}))
        for arguments in (["rl", run], ["rl", run, "--knobs"],
                          ["fit", config, "--framework", "megatron-lm", "--gpu", "h100", "--gpus", "2048",
                           "--seq-length", "4096", "--micro-batch-size", "1", "--global-batch-size", "2048"]):
            with self.subTest(arguments=arguments[:3]):
                code, seconds, _, err = self.peak(arguments)
                self.assertIn(code, (0, 1, 3), err)
                self.assertLess(seconds, 20 * PATIENCE)

    def test_20_messages_are_about_what_was_given(self):
        empty = self.folder / "empty"
        empty.mkdir()
        (self.folder / "snapshot.pickle").write_bytes(b"\x80\x04}q\x00.")
        for arguments, words in ((["diff", empty, empty], "folder"), (["diff", ".", "."], "wanted a dict"), (["diff", "/dev/zero", "/dev/zero"], "device"),
                                 (["fit", "snapshot.pickle"], "pickle|snapshot")):
            done = self.run_program(arguments)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertRegex(done.stderr, words)
        long_key = self.write("job.toml", "x" * 3_000_000 + " = 1\n")
        self.assertLess(len(self.run_program(["fit", long_key]).stderr), 5000)

    def test_22_endless_devices_are_no_input(self):
        for arguments in (["why", "/dev/zero"], ["why", "--slow", "/dev/full"], ["rl", "--observe", "/dev/zero"], ["fit", "/dev/urandom"],
                          ["check", "/dev/full"], ["replay", "/dev/zero"], ["score", "/dev/zero"]):
            code, seconds, mebibytes, err = self.peak(arguments)
            self.assertEqual(code, 3, err)
            self.assertIn(str(arguments[-1]), err)
            self.assertLess(seconds, 5 * PATIENCE)
            if not hostile.SANITIZED:
                self.assertLess(mebibytes, 64)

    def test_27_the_front_says_what_its_figure_is(self):
        done = self.run_program([*hostile.SMALL_PLAN])
        self.assertIn("the sum of tensors", done.stdout)


if __name__ == "__main__":
    hostile.main()
