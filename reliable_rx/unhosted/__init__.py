"""Un-hosted runs on plain reactivex: subscriptions, the push form, calls out."""
