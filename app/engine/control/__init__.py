"""Control of draft lengths, from measured costs and learnt acceptance; no other room decides a length."""
