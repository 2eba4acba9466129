"""Tests of st.cuda, and of tensors made on GPUs."""
