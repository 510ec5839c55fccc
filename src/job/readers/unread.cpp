// SPDX-License-Identifier: Apache-2.0
// Kinds of files whose readers come in later commits; recognise() does not name them.
#include "job/draft.h"
namespace plimsoll::job {
Result<Draft> read_job_file(const InputFile&) { return bad_input("this kind of file is not read"); }
Result<Draft> read_megatron_script(const InputFile&) { return bad_input("this kind of file is not read"); }
Result<Draft> read_bridge_config(const InputFile&) { return bad_input("this kind of file is not read"); }
Result<Draft> read_bridge_overrides(const InputFile&) { return bad_input("this kind of file is not read"); }
Result<Draft> read_training_arguments(const InputFile&) { return bad_input("this kind of file is not read"); }
Result<Draft> read_accelerate_config(const InputFile&) { return bad_input("this kind of file is not read"); }
Result<Draft> read_deepspeed_config(const InputFile&) { return bad_input("this kind of file is not read"); }
Result<Draft> read_torchtitan_config(const InputFile&) { return bad_input("this kind of file is not read"); }
Result<Draft> read_peft_config(const InputFile&) { return bad_input("this kind of file is not read"); }
}  // namespace plimsoll::job
