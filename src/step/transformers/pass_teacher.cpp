// SPDX-License-Identifier: Apache-2.0
// Distillation: a frozen teacher, of sizes of its own, reads the same tokens without gradients (facts
// other-frameworks-memory.md 2.5).
#include <memory>

#include "step/transformers/ops.h"
#include "step/transformers/pass.h"

namespace plimsoll::step::transformers {

// Its model points at its job.
struct Teacher {
  job::Job job;
  std::unique_ptr<Model> model;
};

namespace {

// The student's job with the teacher in its place: nothing of it is trained, adapted, recomputed or split.
job::Job job_of_teacher(const job::Job& student) {
  job::Job job = student;
  job.model = *student.teacher;
  job.teacher = nullptr;
  job.vocab_rows = 0;
  job.adapter = {};
  job.recompute = {};
  job.trainable_layers = 0;
  job.trainable_parameters.clear();
  job.preference_loss = job.reference_model = job.chosen_loss = false;
  job.kernels.embedding_noise = 0;
  job.precision.params = student.precision.compute;
  job.precision.autocast = false;
  return job;
}

}  // namespace

void Pass::ask_teacher() {
  if (teacher_ == nullptr) {
    teacher_ = std::make_shared<Teacher>();
    teacher_->job = job_of_teacher(*m_.job);
    teacher_->model = std::make_unique<Model>(make_model(teacher_->job, whole_model(teacher_->job)));
    for (Weight& w : teacher_->model->weights) w.trainable = false;
  }
  Model& teacher = *teacher_->model;
  teacher.batch = m_.batch;
  teacher.sequence = m_.sequence;
  tape_.touch(gathered_bytes(teacher), Name::kHidden);
  Tensor logits;
  {
    Pass pass(teacher, tape_, workspaces_, nullptr, nullptr);
    Graph& g = pass.g_;
    g.meter = g_.meter;
    g.grad_enabled = false;
    pass.ids_ = ids_;
    pass.padding_ = padding_;
    Var hidden = pass.run_base();
    pass.drop_tables();
    Var made = pass.head(hidden);
    const std::int64_t elements = made.elements;
    const std::uint8_t width = made.width;
    logits = g.take(made);
    tape_.rename(logits, Name::kTeacherLogits);
    teacher_logits_ = g_.adopt(logits, elements, width);
  }
  tape_.layer(-1);
  tape_.at(Operation::kLoss);
  // The softmax in fp32 stays until the loss has gone back.
  teacher_softmax_ = g_.alloc(teacher_logits_.elements, 4, Name::kTeacherLogits);
}

}  // namespace plimsoll::step::transformers
